"""What a case is given: the databases, how large and how often to measure, and where the figures go."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tqdm import tqdm

from harness.benchmarks.figures import Figure, Figures

LONGEST = 900.0
"""Seconds that one measurement may take."""

Way = TypeVar("Way")


@dataclass
class Bench:
    """One run of the suite.

    ``quick`` makes everything about ten times smaller: figures are then rough. ``smallest``, which is quick too, only
    shows that the cases run: its figures say nothing.
    """

    databases: tuple[str, ...]
    repeats: int = 3
    quick: bool = False
    smallest: bool = False
    figures: Figures = field(default_factory=Figures)
    case: str = ""

    def size(self, usual: int) -> int:
        """Return the number of tasks for this run, given the ``usual`` one."""
        return max(100, usual // (100 if self.smallest else 10)) if self.quick else usual

    def some(self, usual: Sequence[Way]) -> Sequence[Way]:
        """Return which of the ``usual`` ways to measure: in the smallest size only the second one."""
        return usual[1:2] if self.smallest else usual

    def note(self, database: str, subject: str, variant: str, unit: str, value: float) -> None:
        """Note one value of one figure of the present case."""
        self.figures.note(Figure(self.case, database, subject, variant, unit), value)
        tqdm.write(f"{self.case:10} {database:9} {subject:22} {variant:40} {value:>12,.1f} {unit}")

    def miss(self, database: str, subject: str, error: Exception) -> None:
        """Note that the present case has no figures of a subject, or no further ones, because of an error."""
        why = f"{type(error).__name__}: {error}"
        self.figures.missing[self.case, database, subject] = why
        tqdm.write(f"{self.case:10} {database:9} {subject:22} {why}")

    def has_missed(self, database: str, subject: str) -> bool:
        """Return whether that was noted of a subject in the present case."""
        return (self.case, database, subject) in self.figures.missing

    def turns(self, what: str, *, repeats: int | None = None) -> Iterator[int]:
        """Measure in turns, so that a noisy minute hits all: one turn for each repetition, with a bar."""
        yield from tqdm(range(repeats or self.repeats), desc=f"{self.case}: {what}", unit="turn", leave=False)

    def run(self, program: str, *arguments: Any, database: str, **environment: str) -> Any:
        """Run ``harness.benchmarks.programs.<program>``; return the JSON that it printed last.

        Raises:
            CalledProcessError: it failed.
        """
        return answer_of(self.start(program, *arguments, database=database, **environment))

    def start(self, program: str, *arguments: Any, database: str, **environment: str) -> "subprocess.Popen[str]":
        """The same, not waited for."""
        settings = {"BENCH_DATABASE": database, "DJANGO_SETTINGS_MODULE": "harness.benchmarks.settings"}
        return subprocess.Popen(
            [sys.executable, "-m", f"harness.benchmarks.programs.{program}", *map(str, arguments)],
            env={**os.environ, **settings, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip


def answer_of(process: "subprocess.Popen[str]", timeout: float = LONGEST) -> Any:
    """The last line that a program prints, as JSON."""
    with ending(process):
        output, _ = process.communicate(timeout=timeout)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return json.loads(output.splitlines()[-1])


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    """Wait until the process reports that it is ready; raise RuntimeError if it ends instead."""
    assert process.stdout
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{process.args!r} ended before it was ready")


def say(process: "subprocess.Popen[str]", word: str) -> None:
    """A line for its standard input."""
    assert process.stdin
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


@contextmanager
def ending(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Kill the process at the end of the block if it still runs."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
