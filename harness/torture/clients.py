"""Clients of a cluster, each call by way of another node, written down as histories.

They are callers as projects have them: no transaction is open, and their sessions wait for no other node's commits
unless the library makes them.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from django.db import DatabaseError, InterfaceError, connections
from django.db.models import F

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import ResourceUnavailable
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome
from harness.database_urls import parse
from harness.torture import ledger
from harness.torture.calls import wait_for_database
from harness.torture.crowd import Crowd
from harness.torture.databases import Database
from harness.torture.databases.clustered import Clustered
from harness.torture.histories import CODE, LATER, SOON, History, Holding, Notes, now
from harness.torture.linearizability import Operation
from harness.torture.models import Beat
from harness.torture.recovery import distribution
from harness.torture.world import World

CALLERS = 3
RECENT = 12
"""The identities that come back, so that several callers meet at one."""
PAUSE = 0.08
"""Seconds between two calls of one caller, at most."""
TTL = 4.0
UNKNOWN_YET = 0.3
"""Seconds that a caller waits when it got no answer."""
LATER_IS = timedelta(hours=1)
RESOURCES = ("a", "b")
POOL = "histories"


class Clients:
    """Threads that add, cancel and reschedule the same identities, hold leases, and ask whether writes are taken."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._crowd = Crowd(world)
        self._notes = Notes(world.folder, "clients")
        self._recent: list[str] = []
        self._made = 0
        self._unanswered: set[str] = set()
        self._beats: list[float] = []
        self._strikes: list[tuple[str, float, float]] = []
        self.aliases = list(_make_aliases(world.database))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let them work in the block; afterwards everything is healed and drained, and what they saw is checked."""
        wait_for_database()
        for name in RESOURCES:
            Pool(POOL).add(name)
        for name in "abc"[:CALLERS]:
            self._crowd.add(1, partial(self._call, name))
        for number, alias in enumerate(self.aliases, 1):
            beat, _ = Beat.objects.get_or_create(pk=number)
            self._crowd.add(1, partial(self._hold, alias))
            self._crowd.add(1, partial(self._beat, alias, beat.pk))
        try:
            yield
        finally:
            try:
                self._world.heal_all()
            finally:
                self._crowd.finish()
        self.conclude()

    @contextmanager
    def struck(self, kind: str) -> Iterator[None]:
        """In the block something of this kind happens and ends: how long work stood still is told at the end."""
        begun = now()
        yield
        self._strikes.append((kind, begun, now()))

    def _call(self, client: str, dice: random.Random) -> None:
        self._crowd.sleep(dice.random() * PAUSE)
        if not self._recent or dice.random() < 0.4:
            self.hand_over(client, dice)
            return
        thing = dice.choice(self._recent)
        node, when = dice.choice(self.aliases), dice.choice((SOON, LATER))
        if thing not in self._unanswered:
            match dice.choice(("add", "add", "cancel", "reschedule")):
                case "add":
                    self.add(client, node, thing, when)
                case "cancel":
                    self.cancel(client, node, thing)
                case "reschedule":
                    self.reschedule(client, node, thing, when)

    def hand_over(self, client: str, dice: random.Random) -> None:
        """Add by way of one node; cancel or reschedule at once by way of another, most of the time."""
        self._made += 1
        thing = f"h{self._made}-{client}"
        first, second = dice.sample(self.aliases, 2) if len(self.aliases) > 1 else self.aliases * 2
        when = dice.choice((SOON, LATER))
        if self.add(client, first, thing, when):
            match dice.choice(("cancel", "cancel", "reschedule", "")):
                case "cancel":
                    self.cancel(client, second, thing)
                case "reschedule":
                    self.reschedule(client, second, thing, when)
            self._recent = [*self._recent, thing][-RECENT:]

    def add(self, client: str, node: str, thing: str, when: str) -> bool:
        """Add, and note it; whether there was an answer."""
        task = Task(biz_code=CODE, biz_num=thing, when=_moment(when), biz_ext={"seconds": 0.05})
        return self._noted(client, node, thing, "add", when, lambda: str(api.add_task(task, using=node).action))

    def cancel(self, client: str, node: str, thing: str) -> bool:
        return self._noted(client, node, thing, "cancel", "", lambda: str(api.cancel_task(CODE, thing, using=node)))

    def reschedule(self, client: str, node: str, thing: str, when: str) -> bool:
        def call() -> str:
            return "moved" if api.reschedule_task(CODE, thing, _moment(when), using=node) else "missing"

        return self._noted(client, node, thing, "reschedule", when, call)

    def _noted(self, client: str, node: str, thing: str, verb: str, given: str, call: Callable[[], str]) -> bool:
        begun = now()
        try:
            answer = call()
        except (DatabaseError, InterfaceError):
            connections[node].close()
            # What is not known makes all that follows less known: nothing follows.
            self._unanswered.add(thing)
            self._notes.operation(thing, Operation(verb, begun, given=given, client=client, node=node))
            self._crowd.sleep(UNKNOWN_YET)
            return False
        self._notes.operation(thing, Operation(verb, begun, now(), answer, given, client, node))
        return True

    def _hold(self, alias: str, dice: random.Random) -> None:
        pool = Pool(POOL, using=alias)
        wanted: Any = mutex(POOL, TTL, 2, using=alias) if dice.random() < 0.5 else pool.lease(TTL, 2)
        with suppress(ResourceUnavailable):
            try:
                with wanted as lease:
                    self._keep(alias, lease, now() + dice.random())
            except (DatabaseError, InterfaceError):
                connections[alias].close()
                self._crowd.sleep(UNKNOWN_YET)

    def _keep(self, alias: str, lease: Any, end: float) -> None:
        seen = []
        while (moment := now()) < end and lease.is_held:
            seen.append(moment)
            self._crowd.sleep(0.02)
        if seen:
            self._notes.holding(Holding(lease.name, lease.token, seen[0], seen[-1], f"a client of {alias}"))

    def _beat(self, alias: str, beat: int, dice: random.Random) -> None:
        try:
            Beat.objects.using(alias).filter(pk=beat).update(number=F("number") + 1)
            self._beats.append(now())
        except (DatabaseError, InterfaceError):
            connections[alias].close()
        self._crowd.sleep(0.05)

    def conclude(self) -> None:
        """Wait until nothing is running or due any more, and check everything that was written down."""
        self._world.drain()
        ended = (RunOutcome.DONE, RunOutcome.CANCELLED)
        runs = [run for run in ledger.read().runs if run.code == CODE and run.outcome in ended]
        by = now()
        left = set(Task.objects.filter(biz_code=CODE).values_list("biz_num", flat=True))
        history = History.of(self._world.folder)
        history.settled({(run.num, f"{run.task_id}.{run.version}") for run in runs}, by)
        for thing, operations in history.operations.items():
            operations.append(Operation("look", by, now(), "there" if thing in left else "missing"))
        found = list(history.violations())
        for text in found:
            self._world.violation(text)
        self._report(history, len(found))

    def _report(self, history: History, contradictions: int) -> None:
        operations = [one for all_of_it in history.operations.values() for one in all_of_it]
        unknown = sum(one.answer is None for one in operations)
        leases = sum(map(len, history.holdings.values()))
        self._world.fact(
            f"{len(history.operations):,d} histories of {len(operations):,d} operations, {unknown} without an answer,"
            f" and {leases:,d} leases: {contradictions} contradictions"
        )
        runs = [one.answered for one in operations if one.verb == "begin"]
        calls = [one.answered for one in operations if one.client and one.answer]
        for kind in dict.fromkeys(kind for kind, _, _ in self._strikes):
            still = [_longest_gap(self._beats, begin, end) for of, begin, end in self._strikes if of == kind]
            again = [end for _, end in still]
            self._world.fact(f"{kind}, {len(still)} times:")
            self._tell("the cluster took no writes for", still)
            self._tell("from then until a call was answered", [(end, _next(calls, end)) for end in again])
            self._tell("from then until a run began", [(end, _next(runs, end)) for end in again])

    def _tell(self, what: str, spans: Iterable[tuple[float, float]]) -> None:
        found = distribution(sorted(end - begin for begin, end in spans))
        seconds = ", ".join(f"{name} {found[name]:.2f} s" for name in ("p50", "p99", "longest"))
        self._world.fact(f"  {what}: {seconds}")


def _make_aliases(database: Database) -> Iterator[str]:
    """Aliases for one node alone each, or one for what leads to the only node that takes writes.

    Their sessions are as they are by default.
    """
    assert isinstance(database, Clustered)
    usual = connections.settings["default"]
    entries = [usual] if database.is_led else [{**usual, **parse(url)} for url in database.urls]
    for number, entry in enumerate(map(deepcopy, entries), 1):
        entry["OPTIONS"].update(database.options)
        entry["OPTIONS"].pop("init_command", None)
        connections.settings[alias := f"node{number}"] = entry
        yield alias


def _moment(when: str) -> timedelta:
    return LATER_IS if when == LATER else timedelta(seconds=0.2)


def _longest_gap(moments: Iterable[float], begin: float, end: float) -> tuple[float, float]:
    """The longest time between two of these moments, within a span."""
    inside = [begin, *sorted(one for one in moments if begin < one < end), end]
    return max(pairwise(inside), key=lambda gap: gap[1] - gap[0])


def _next(moments: Iterable[float], after: float) -> float:
    return min((one for one in moments if one >= after), default=now())
