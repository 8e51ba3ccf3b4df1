"""Enqueue due tasks in huey, which has no way to add many at once: ``fill_huey TASKS``."""

import sys

from harness.benchmarks.peers.programs.huey_app import nothing

if __name__ == "__main__":
    for _ in range(int(sys.argv[1])):
        nothing()
