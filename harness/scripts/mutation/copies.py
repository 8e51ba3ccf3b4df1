"""Copies of the repository in which the tests run: the original is never touched."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from harness import ROOT
from harness.scripts.mutation.places import WORK, ignored
from harness.scripts.mutation.plugin import JOB, Job

PYTEST = (
    "-m",
    "pytest",
    "-p",
    "harness.scripts.mutation.plugin",
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:faulthandler",
)

T = TypeVar("T")
R = TypeVar("R")


class Ran(NamedTuple):
    """One run of pytest: its exit code, the events that the plugin noted, and the end of what it printed."""

    code: int
    events: Sequence[Mapping[str, Any]]
    output: str


class Copy:
    """A copy of the repository; ``prefix`` is put before each command ("nice -n 5"). Its tests run on ``database``."""

    def __init__(self, name: str, prefix: Sequence[str], database: str = "sqlite") -> None:
        self.root = WORK / name
        self.database = database
        self._prefix = prefix
        self._numbers = itertools.count()
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(ROOT, self.root, ignore=ignored)

    def write(self, path: str, source: str) -> None:
        """Give a file this text, and forget what was compiled of it: two texts of one second and size look alike."""
        file = self.root / path
        file.write_text(source)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()

    def restore(self, path: str) -> None:
        self.write(path, (ROOT / path).read_text())

    def run(
        self, files: Sequence[str], seconds: Mapping[str, float] | None, *options: str, with_lines: bool = False
    ) -> Ran:
        """Run tests of these files in the copy, those in ``seconds`` in their order, each for so long at most."""
        report, order = self.root / "mutants.report", self.root / "mutants.job"
        report.unlink(missing_ok=True)
        order.write_text(json.dumps(Job(report=str(report), seconds=seconds, with_lines=with_lines)))
        code, output = self._finish([*self._prefix, sys.executable, *PYTEST, *options, *files], order)
        lines = report.read_text().splitlines() if report.exists() else []
        return Ran(code, [json.loads(line) for line in lines], output[-2000:])

    def _finish(self, command: Sequence[str], order: Path) -> tuple[int, str]:
        """Run a command to its end, then end all processes that it left behind."""
        environment = {**os.environ, "DDT_DATABASE": self.database, "PYTHONPATH": str(self.root), JOB: str(order)}
        output = self.root / "mutants.output"
        with output.open("w") as stream:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code = process.wait()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return code, output.read_text(errors="replace")


def each_on_a_copy(copies: Sequence[Copy], jobs: Iterable[T], do: Callable[[Copy, T], R]) -> Iterator[R]:
    """Do all jobs, each copy one at a time, and yield the results as they come."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def done(job: T) -> R:
        copy = free.get()
        try:
            return do(copy, job)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as threads:
        waiting = [threads.submit(done, job) for job in jobs]
        try:
            yield from (future.result() for future in as_completed(waiting))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
