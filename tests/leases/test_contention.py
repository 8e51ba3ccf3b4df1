"""40 resources, 100 contenders in 8 processes, of which one after the other is killed."""

import os
import random
import signal
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import line as waiting
from tests.leases.contenders import POOL, TTL
from tests.leases.rows import wanted
from tests.processes.conftest import Start
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.per_database

RESOURCES, PROCESSES, THREADS = 40, 8, 13
LEAST = 0.9
KILLS, BETWEEN = 4, 8
"""How many processes are killed in a round, and how many leases are acquired in between."""
ROUNDS = 5
"""The greatest number of rounds. A resource that is idle because the machine is busy says nothing about leases, and
only lowers the utilisation: one round above the limit is enough. Two holders are an error in any round."""


@dataclass(frozen=True)
class Note:
    event: str
    pid: int
    at: float
    name: str = ""
    token: int = 0


@dataclass
class Held:
    """One lease as its holder saw it; without an end when it was killed."""

    name: str
    token: int
    pid: int
    begin: float
    end: float | None = field(default=None)


def read_notes(path: Path, may_fail: int = 0) -> list[Note]:
    """Return all notes; an error in them fails the test, unless it is of the process that may fail."""
    notes = []
    for line in path.read_text().splitlines() if path.exists() else []:
        event, pid, at, *rest = line.split(" ", 4)
        assert event != "error" or int(pid) == may_fail, line
        named = len(rest) == 2 and event != "error"
        notes.append(Note(event, int(pid), float(at), rest[0] if named else "", int(rest[1]) if named else 0))
    return notes


def leases(notes: list[Note]) -> list[Held]:
    found = {
        (note.name, note.token): Held(note.name, note.token, note.pid, note.at) for note in notes if note.event == "got"
    }
    for note in notes:
        if note.event == "gave":
            found[note.name, note.token].end = note.at
    return list(found.values())


class Crowd:
    """The contenders, killed now and then."""

    def __init__(self, start: Start, folder: Path) -> None:
        self.path = folder / "notes"
        self._folder = folder
        self._random = random.Random(4)
        self._child = start("-m", "tests.leases.contenders", str(folder), str(PROCESSES), str(THREADS))
        self.killed: dict[int, float] = {}

    def await_leases(self, more: int) -> None:
        count = self._acquired() + more
        wait_until(lambda: self._acquired() >= count)

    def _acquired(self) -> int:
        return sum(note.event == "got" for note in read_notes(self.path))

    def kill_one(self) -> None:
        begun = {note.pid for note in read_notes(self.path) if note.event == "begun"}
        victim = self._random.choice(sorted(begun - set(self.killed)))
        os.kill(victim, signal.SIGKILL)
        self.killed[victim] = time.monotonic()

    def round(self) -> tuple[float, float]:
        """Leases and kills for a while; from when to when."""
        begin = time.monotonic()
        for _ in range(KILLS):
            self.await_leases(BETWEEN)
            self.kill_one()
        self.await_leases(2 * BETWEEN)
        return begin, time.monotonic()

    def utilisation(self, begin: float, end: float) -> float:
        """See :func:`utilisation`."""
        held = leases(read_notes(self.path))
        part = utilisation(held, self.killed, begin, end)
        print(f"utilisation {part:.1%} over {end - begin:.1f} s, {len(held)} leases, {len(self.killed)} killed")
        return part

    def end(self) -> None:
        """The last ones may finish, so that each lease has an end or a killed holder."""
        (self._folder / "stop").touch()
        assert self._child.exit_code() == 0


def never_two(notes: list[Note]) -> list[list[Note]]:
    """Return the notes on resources that two processes held, where neither knew that its lease was lost.

    On a very busy machine a process may stand still for longer than its lease; then it must know that it did.
    """
    lost = {(note.name, note.token) for note in notes if note.event == "lost"}
    return [
        [other for other in notes if other.name == note.name]
        for note in notes
        if note.event == "overlap" and not any(name == note.name and token <= note.token for name, token in lost)
    ]


def utilisation(held: list[Held], killed: dict[int, float], begin: float, end: float) -> float:
    """Held time as a part of the time in which resources could be held: not while a dead holder's lease ran."""
    used = unusable = 0.0
    by_name: defaultdict[str, list[Held]] = defaultdict(list)
    for lease in sorted(held, key=lambda lease: lease.begin):
        by_name[lease.name].append(lease)
    for row in by_name.values():
        following = [lease.begin for lease in row[1:]] + [end]
        for lease, successor in zip(row, following, strict=True):
            stop = killed.get(lease.pid, end) if lease.end is None else lease.end  # or it is held still
            used += span(lease.begin, stop, begin, end)
            if lease.pid in killed and lease.end is None:
                unusable += span(stop, min(successor, stop + TTL), begin, end)
    return used / (RESOURCES * (end - begin) - unusable)


def span(start: float, stop: float, begin: float, end: float) -> float:
    return max(min(stop, end) - max(start, begin), 0.0)


def test_never_two_holders_none_leaked_hardly_any_idle(start: Start, folder: Folder) -> None:
    pool = Pool(POOL)
    for number in range(RESOURCES):
        pool.add(str(number))
    crowd = Crowd(start, folder.path)
    crowd.await_leases(RESOURCES)
    wait_until(lambda: Waiter.objects.count() >= RESOURCES)
    parts: list[float] = []
    while len(parts) < ROUNDS and max(parts, default=0) <= LEAST:
        parts.append(crowd.utilisation(*crowd.round()))
    crowd.end()

    notes = read_notes(crowd.path)
    assert never_two(notes) == []
    assert max(parts) > LEAST, parts
    tokens = [(lease.name, lease.token) for lease in sorted(leases(notes), key=lambda lease: lease.begin)]
    for number in range(RESOURCES):
        own = [token for name, token in tokens if name == str(number)]
        assert own == sorted(set(own))
    assert Resource.objects.count() == RESOURCES
    wait_until(lambda: len(waiting.queue_view(ALIAS, wanted()).free) == RESOURCES)
    assert not Resource.objects.exclude(pool=POOL).exists()
    assert Waiter.objects.count() <= len(crowd.killed) * THREADS
