"""The command line: one runner for each database, side by side; a live line; the report."""

import sys

from harness.torture.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
