"""The agenda: every level in use, since when, and how long until the next is due."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.agenda import Agenda, Level, read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, look
from django_delayed_tasks.store.sql.dialects import dialect_of
from tests.store import verbs
from tests.store.verbs import ALIAS, HOUR, NOW


def test_nothing_waits(db: None, frozen: None) -> None:
    agenda = read_agenda(ALIAS)
    assert (agenda.now, agenda.levels, agenda.due()) == (NOW, (), [])


def test_levels_and_their_earliest(db: None, frozen: None) -> None:
    for queue, priority, hours in [("b", 0, 3), ("a", 5, 2), ("a", 5, 1), ("a", -5, 4), ("B", 0, 6), ("a", 5, 9)]:
        verbs.add(f"{queue}{priority}{hours}", hours * HOUR, queue=queue, priority=priority)
    assert set(read_agenda(ALIAS).levels) == {
        Level("a", -5, NOW + 4 * HOUR),
        Level("a", 5, NOW + HOUR),
        Level("b", 0, NOW + 3 * HOUR),
        Level("B", 0, NOW + 6 * HOUR),
    }


def test_only_what_waits(db: None, frozen: None) -> None:
    verbs.add("running", queue="running")
    verbs.claim(queue="running")
    verbs.add("failed", queue="failed")
    verbs.settle(*(verbs.failed(run) for run in verbs.claim(queue="failed")))
    assert read_agenda(ALIAS).levels == ()


def test_due_levels(db: None, frozen: None) -> None:
    for level, (priority, since) in {"a": (1, 1), "b": (9, 2), "c": (1, 3), "d": (9, 0), "e": (99, -1)}.items():
        with clock.frozen_at(NOW - since * HOUR):
            verbs.add(level, queue=level, priority=priority)
    assert {level.queue for level in read_agenda(ALIAS).due()} == {"a", "b", "c", "d"}


def test_levels_that_are_due_soon() -> None:
    second = timedelta(seconds=1)
    levels = [("soon", 1), ("due", 0), ("at the bound", 2), ("first", -1), ("later", 3)]
    agenda = Agenda(NOW, tuple(Level(queue, 0, NOW + at * second) for queue, at in levels))
    assert {level.queue for level in agenda.due(2 * second)} == {"first", "due", "soon", "at the bound"}
    assert {level.queue for level in agenda.due()} == {"first", "due"}


PAUSE = 0.05
"""Seconds that a reading of the levels is made to take."""
PAUSES = {
    "mysql": f"SLEEP({PAUSE}) = 0",
    "postgresql": f"(SELECT 1 FROM pg_sleep({PAUSE})) = 1",
    "sqlite": "pause() = 0",
}


def pause() -> int:
    """Do as the servers' functions do, on SQLite."""
    time.sleep(PAUSE)
    return 0


def test_clock_is_read_after_the_levels(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By as much as the clock is behind, a task that was claimed ahead starts late."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        connection.connection.create_function("pause", 0, pause)
    verbs.add("one")
    before = read_agenda(ALIAS).now
    condition = f"= '' AND {PAUSES[connection.vendor]}"
    monkeypatch.setattr("django_delayed_tasks.store.claiming.agenda._UNBLOCKED", condition)
    slow = read_agenda(ALIAS)
    assert [level.queue for level in slow.levels] == ["default"]
    assert slow.now - before >= timedelta(seconds=PAUSE)


def test_looks_read_the_clock_as_late(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite needs no looks")
    pauses = {"mysql": f"(SELECT NULLIF(SLEEP({PAUSE}), 0))", "postgresql": f"(SELECT pg_sleep({PAUSE})::text)"}
    verbs.add("one")
    before = read_agenda(ALIAS).now
    monkeypatch.setattr(type(dialect_of(connection)), "paused_queues", pauses[connection.vendor])
    assert look(ALIAS, known(("default", 0))).now - before >= timedelta(seconds=PAUSE)


@pytest.mark.parametrize("jump", [-3600, 3600])
def test_local_time_that_jumps_within_the_statement(db: None, jump: int) -> None:
    """As when daylight saving time begins or ends: the session shows its begin an hour off, and the present right."""
    if connection.vendor != "mysql":
        pytest.skip("elsewhere the time within a statement is not read as local time")
    with connection.cursor() as cursor:
        cursor.execute("SELECT UNIX_TIMESTAMP()")
        [began] = cursor.fetchone()
        cursor.execute("SET timestamp = %s", [began + jump])
        try:
            now = read_agenda(ALIAS).now
        finally:
            cursor.execute("SET timestamp = DEFAULT")
    assert timedelta() <= now - datetime.fromtimestamp(began + jump, UTC) < timedelta(minutes=1)


def known(*levels: tuple[str, int], idle: Iterable[tuple[str, int]] = (), watermark: timedelta = HOUR) -> KnownLevels:
    """Return known levels, with a watermark at NOW minus ``watermark``."""
    marks = {("", *level): NOW - watermark for level in levels}
    return KnownLevels(marks, frozenset(("", *level) for level in idle), NOW - watermark)


def test_what_is_below_the_watermark_may_be_left_out(db: None, frozen: None) -> None:
    with clock.frozen_at(NOW - HOUR):
        verbs.add("old", queue="a")
    verbs.add("new", queue="a")
    assert look(ALIAS, known(("a", 0))).levels == (Level("a", 0, NOW - HOUR),)
    above = NOW - HOUR if connection.vendor == "sqlite" else NOW
    assert look(ALIAS, known(("a", 0), watermark=HOUR / 2)).levels == (Level("a", 0, above),)


USED = sorted((queue, priority) for queue in ("B", "a", "m", "mm", "z") for priority in (-9, 0, 1, 2, 3, 9))
KNOWN: list[list[tuple[str, int]]] = [
    [("m", 0)],
    [("m", -5), ("m", 5)],
    [("m", 0), ("m", 1), ("m", 3)],
    [("a", 9), ("m", 0), ("z", -9)],
    [("", -100), ("nobody's", 0), ("\N{GREEK SMALL LETTER OMEGA}", 100)],
    [(f"q{i:03}", 0) for i in range(101)],
]


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("levels", KNOWN, ids=lambda known: f"{len(known)} from {known[0]}")
def test_levels_that_are_not_known(db: None, frozen: None, levels: list[tuple[str, int]], idle: bool) -> None:
    """Whatever is known, in use or not: all others are found too, but for InnoDB, which leaves them to a full scan."""
    for queue, priority in USED:
        verbs.add(f"{queue} {priority}", HOUR, queue=queue, priority=priority)
    found = look(ALIAS, known(idle=levels) if idle else known(*levels)).levels
    looked_at = [] if idle else sorted(set(USED).intersection(levels))
    is_partial = connection.vendor == "mysql" and len(levels) <= 100
    assert sorted(found) == [Level(*level, NOW + HOUR) for level in (looked_at if is_partial else USED)]


def test_known_levels_without_tasks(db: None, frozen: None) -> None:
    assert look(ALIAS, known(("a", 0), ("b", 1), idle=[("c", 2)])).levels == ()


def test_now_is_the_databases(db: None) -> None:
    assert abs(read_agenda(ALIAS).now - clock.host_now()) < timedelta(minutes=1)
