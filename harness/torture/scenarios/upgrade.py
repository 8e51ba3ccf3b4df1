"""12. An upgrade, in two deploys: first the package everywhere, then the first handler of a new kind.

Executors and web processes of the version before work while the migrations are applied, then next to those of the
working tree, and end. No executor consumes what it cannot run.
"""

import json
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from django_delayed_tasks.models import Executor as ExecutorRow
from django_delayed_tasks.models import TaskRun
from harness.torture import hooks, ledger, versions
from harness.torture.bugs import VARIABLE
from harness.torture.calls import OF_ONE_PROCESS
from harness.torture.child import Child, ChildError
from harness.torture.cluster import Executor
from harness.torture.codes import COROUTINES, HANDLERS, MIXED, paths_of
from harness.torture.ledger import PREFIX, STOCK
from harness.torture.locking import MOST
from harness.torture.recovery import longest_gap
from harness.torture.scenario import EVERYWHERE, Scenario, Size, register
from harness.torture.world import World

APP = "django_delayed_tasks"
NEW = "t-async"
"""The code of the handler that the second deploy brings."""
WEB = 2
"""Web processes of a release."""
RATE = 15.0
"""Calls of a web process in a second: two releases with all that they start leave two cores some time."""
UNHOOKED = {hooks.NAME: ""}
"""The hooks are for the package of the working tree."""
STAGES = 7
"""The stages between two steps of the upgrade."""


@register
class Upgrade(Scenario):
    name = "upgrade"
    number = 12
    title = "an upgrade under load, from --from: migrations, the package, then a new handler"
    sizes = {
        "short": Size(tasks=140, executors=2, threads=2, extra=10_000),
        "full": Size(tasks=4_200, executors=2, extra=300_000),
    }
    """``tasks`` are calls, ``extra`` is the number of rows that wait for another day."""
    databases = EVERYWHERE - {"galera"}

    def run(self, world: World) -> None:
        folder = world.folder / "before"
        world.fact(f"from {versions.unpack(world.before, folder)}")
        old = versions.environment(folder)
        try:
            call_command("migrate", APP, "zero", verbosity=0)
            _finish(world, "tables", ["-m", "django", "migrate", "--verbosity", "0"], old)
            stock = ["waiting", "0", str(world.size.extra), "1"]
            _finish(world, "stock", ["-m", "harness.benchmarks.programs.stock", *stock], old)
            waiting = _stock()
            self._deploy_twice(world, folder, old)
        except Exception:
            call_command("migrate", verbosity=0)  # the report reads the tables
            raise
        world.drain()
        if waiting != _stock():
            world.violation(f"of the rows that wait, {waiting} were there before, {_stock()} now")
        _judge(world)

    @staticmethod
    def _deploy_twice(world: World, folder: Path, old: Mapping[str, str]) -> None:
        package = Path(versions.__file__).parents[2]
        before = Release(world, 1, folder, {**old, VARIABLE: ""})
        after = Release(world, 2, package)
        with_new = Release(world, 3, package, handlers=COROUTINES, codes=(*MIXED, NEW))
        before.start()
        _work(world, before)
        call_command("migrate", verbosity=0)
        _work(world, before)
        before.make_way_for(after)
        after.make_way_for(with_new)
        with_new.end_web()


class Release:
    """The executors and the web processes of a release, all with the package in ``folder``."""

    def __init__(
        self,
        world: World,
        number: int,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        handlers: tuple[str, ...] = HANDLERS,
        codes: tuple[str, ...] = MIXED,
    ) -> None:
        self._world = world
        self._number = number
        self._folder = folder
        self._environment = {**(environment or {}), **UNHOOKED, "DDT_TORTURE_HANDLERS": json.dumps(paths_of(handlers))}
        self._codes = codes
        self._executors: list[Executor] = []
        self._web: dict[str, Child] = {}

    def start(self) -> None:
        """Start the executors, then the web processes."""
        self._executors = [self._executor(one) for one in range(self._world.size.executors)]
        for executor in self._executors:
            executor.wait_until_ready()
        self._web = {f"web{one}-{self._number}": self._web_process(one) for one in range(WEB)}
        for child in self._web.values():
            child.wait_for(f"Calling with {self._folder / APP}\n")

    def _executor(self, one: int) -> Executor:
        name, settings = f"e{one}-{self._number}", {"THREADS": self._world.size.threads}
        return self._world.cluster.start(name, environment=self._environment, settings=settings, keep=False)

    def _web_process(self, one: int) -> Child:
        world = self._world
        given = {
            "number": self._number * WEB + one, "rate": RATE, "seed": world.database.name,
            "longest": world.load.longest, "codes": self._codes,
        }  # fmt: skip
        program = ["-m", "harness.torture.web", json.dumps(given)]
        return world.cluster.child(f"web-{self._number}", program, world.database.url, environment=self._environment)

    def make_way_for(self, other: "Release") -> None:
        """Start the other release next to this one, and end this one: its executors, then its web processes."""
        world = self._world
        other.start()
        _work(world, self, other)
        for executor in self._executors:
            executor.is_ending = True
            self._end(executor.name, executor.child)
            world.tally.faults["executor replaced by one of another release"] += 1
        self._executors.clear()
        _work(world, self, other)
        self.end_web()

    def end_web(self) -> None:
        """End the web processes, once each has the answer to its call."""
        for name, child in self._web.items():
            self._end(name, child)

    def look(self) -> None:
        """See that all its processes are there.

        Raises:
            ChildError: one is not; the message has the end of its output.
        """
        for name, child in (*((one.name, one.child) for one in self._executors), *self._web.items()):
            if (code := child.process.poll()) is not None:
                raise ChildError(f"{name} ended with {code} by itself:\n{child.output[-3000:]}")

    def _end(self, name: str, child: Child) -> None:
        child.process.send_signal(signal.SIGTERM)
        self._world.wait_until(lambda: child.process.poll() is not None, f"{name} ends")
        if code := child.process.poll():
            self._world.violation(f"{name} ended with {code}: {child.output[-2000:]}")


def _finish(world: World, name: str, program: list[str], environment: Mapping[str, str]) -> None:
    """Run a program to its end, with the package of that environment."""
    child = world.cluster.child(name, program, world.database.url, environment={**environment, **UNHOOKED})
    if code := child.exit_code(patience=600.0):
        raise RuntimeError(f"{name} ended with {code}:\n{child.output[-3000:]}")


def _work(world: World, *releases: Release) -> None:
    """Let these make calls, and end tasks."""
    part, before = world.size.tasks // STAGES, ledger.standing()

    def is_done() -> bool:
        for release in releases:
            release.look()
        now = ledger.standing()
        return now.calls >= before.calls + part and now.runs > before.runs

    world.wait_until(is_done, f"{part} calls and a run", patience=300)


def _stock() -> tuple[object, ...]:
    """Return how many rows wait, with what would show that they were changed."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*), SUM(version), SUM(status), MIN(when_time), MAX(claim_at) FROM {PREFIX}task"
            f" WHERE biz_code LIKE '{STOCK}'"
        )
        return tuple(map(str, cursor.fetchone()))


def _judge(world: World) -> None:
    codes = {row.pk: set(row.codes) for row in ExecutorRow.objects.all()}
    found = ledger.read()
    ended = {(run.executor, run.task_id, run.code) for run in found.runs if run.started}
    for executor, task, code in ended | {(seen.executor, seen.task_id, seen.code) for seen in found.seen}:
        if code not in codes.get(executor or 0, {code}):
            world.violation(f"task {task} ({code}) was consumed by executor {executor}, which cannot run it")
    if lost := TaskRun.objects.filter(biz_code="t-plain", attempt__gt=1).count():
        world.violation(f"{lost} runs of a code that never fails were not the first attempt")
    if not any(seen.code == NEW for seen in found.seen):
        world.violation(f"no run of {NEW}, which the second deploy brings")
    _judge_pauses(world, found)


def _judge_pauses(world: World, found: ledger.Ledger) -> None:
    """Nothing stood still for longer than two leases: neither the runs of all executors, nor a web process."""
    calls: dict[int, list[float]] = {}
    for call in found.calls:
        calls.setdefault(call.sequence // OF_ONE_PROCESS, []).append(call.at.timestamp())
    span = found.calls[0].at.timestamp(), found.calls[-1].at.timestamp()
    pauses = {
        "no run did anything": _longest((seen.at.timestamp() for seen in found.seen), *span),
        "a web process got no answer": max(_longest(ats, min(ats), max(ats)) for ats in calls.values()),
    }
    for what, seconds in pauses.items():
        world.fact(f"{what} for {seconds:.2f} s at most")
        if seconds > MOST:
            world.violation(f"no_pause: {what} for {seconds:.1f} s")


def _longest(moments: Iterable[float], begin: float, end: float) -> float:
    since, until = longest_gap(moments, begin, end)
    return until - since
