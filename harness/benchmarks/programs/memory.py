"""``memory EVERY [OPTION=VALUE …]``: one executor runs all that is due, with these options next to the defaults.

Prints the memory of this process, each ``EVERY`` seconds meanwhile, and the seconds that it took.
"""

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import django
from django.core.management import call_command

from harness.benchmarks.programs.drain import drain, executor_with, options_of


class Sample(NamedTuple):
    """How many tasks had been settled, and what was resident then: all of it, and what is no file's; megabytes."""

    settled: int
    resident: float
    anonymous: float


def of_this_process() -> dict[str, float]:
    """The sizes that Linux tells, in megabytes (10^6 bytes)."""
    found = re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    return {name: int(kibibytes) * 1024 / 1e6 for name, kibibytes in found}


def sampled(executor: Any, every: float) -> dict[str, Any]:
    """Run what is due; the samples, and the greatest resident size that there ever was."""
    samples: list[Sample] = []
    ended = threading.Event()

    def sample() -> None:
        while True:
            sizes = of_this_process()
            samples.append(Sample(executor.held.settled, sizes["VmRSS"], sizes["RssAnon"]))
            if ended.wait(every):
                return

    sampler = threading.Thread(target=sample)
    sampler.start()
    began = time.monotonic()
    settled = drain(executor)
    seconds = time.monotonic() - began
    ended.set()
    sampler.join()
    sizes = of_this_process()
    samples.append(Sample(settled, sizes["VmRSS"], sizes["RssAnon"]))
    return {"samples": samples, "greatest": sizes["VmHWM"], "seconds": seconds}


if __name__ == "__main__":
    django.setup()
    call_command("check")  # as starttask does: what it imports is part of the process
    import django_delayed_tasks.management.commands.starttask  # noqa: F401

    every, *words = sys.argv[1:]
    executor = executor_with(options_of(words))
    answer = sampled(executor, float(every))
    executor.stop()
    print(json.dumps(answer))
