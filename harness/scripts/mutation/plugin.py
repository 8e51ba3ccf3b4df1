"""A plugin of pytest for one run: it picks and orders the tests, notes how each one ends, and which lines it reaches.

The environment variable MUTANTS_JOB names a JSON file with the order (see :class:`Job`). Tests are given there and not
on the command line, where some of their names would not survive. Each event is a JSON line in ``report``.
"""

import faulthandler
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, TypedDict

import pytest

from harness.scripts.mutation.places import PACKAGE

JOB = "MUTANTS_JOB"
MAX_MEMORY = 4 * 2**30
"""Bytes of address space; a mutant that collects things for ever ends there."""
MAX_START = 300
"""Seconds that a process may take to collect the tests, and to end after them."""


class Job(TypedDict):
    """What one run of pytest does: ``seconds`` has the tests and what each may take; None means all, and 300."""

    report: str
    seconds: Mapping[str, float] | None
    with_lines: bool


class Reached:
    """The lines of the package that have been run since the last reset, seen by sys.monitoring, in any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._root = folder.parent
        self._lines: set[tuple[str, int]] = set()
        self._monitoring: Any = getattr(sys, "monitoring", None)
        if self._monitoring is None:
            raise pytest.UsageError("which lines a test reaches is known from Python 3.12 on; take a newer Python")

    def start(self) -> None:
        tool, events = self._monitoring.COVERAGE_ID, self._monitoring.events
        self._monitoring.use_tool_id(tool, "mutants")
        self._monitoring.register_callback(tool, events.PY_START, self._on_start)
        self._monitoring.register_callback(tool, events.LINE, self._on_line)
        self._monitoring.set_events(tool, events.PY_START)

    def _on_start(self, code: CodeType, offset: int) -> Any:
        if code.co_filename.startswith(self._folder):
            monitoring = self._monitoring
            monitoring.set_local_events(monitoring.COVERAGE_ID, code, monitoring.events.LINE)
            self._lines.add((code.co_filename, code.co_firstlineno))
        return self._monitoring.DISABLE

    def _on_line(self, code: CodeType, line: int) -> None:
        self._lines.add((code.co_filename, line))

    def take(self) -> dict[str, list[int]]:
        """Return the lines of each file, by its path below the root, and start from nothing."""
        taken, self._lines = self._lines, set()
        lines: defaultdict[str, list[int]] = defaultdict(list)
        for name, line in sorted(taken):
            lines[str(Path(name).relative_to(self._root))].append(line)
        return lines


class Plugin:
    """The hooks of pytest for one job."""

    def __init__(self, job: Job, root: Path) -> None:
        self._seconds = job["seconds"]
        self._report = open(job["report"], "a", buffering=1)  # noqa: SIM115
        self._reached = Reached(root / PACKAGE) if job["with_lines"] else None
        self._failed = False
        if self._reached is not None:
            self._reached.start()
        faulthandler.dump_traceback_later(MAX_START, exit=True)

    def _note(self, event: str, **more: object) -> None:
        self._report.write(json.dumps({"event": event, **more}) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._seconds is not None:
            order = {name: number for number, name in enumerate(self._seconds)}
            items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])
        self._note("collected", tests=len(items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note("not collected", where=report.nodeid, error=str(report.longrepr)[-500:])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._note("begins", test=item.nodeid)
        if self._reached is not None:
            self._reached.take()
        limit = MAX_START if self._seconds is None else self._seconds[item.nodeid]
        faulthandler.dump_traceback_later(limit, exit=True)
        self._failed, begun = False, time.monotonic()
        result = yield
        lines = {} if self._reached is None else self._reached.take()
        took = round(time.monotonic() - begun, 3)
        self._note("ended", test=item.nodeid, failed=self._failed, seconds=took, lines=lines)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._note("finished", status=int(exitstatus))
        faulthandler.dump_traceback_later(MAX_START, exit=True)


def pytest_configure(config: pytest.Config) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    job: Job = json.loads(Path(os.environ[JOB]).read_text())
    config.pluginmanager.register(Plugin(job, config.rootpath), "mutants-of-one-run")
