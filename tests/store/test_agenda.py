"""The agenda: every level in use, since when, and how long until the next is due."""

from datetime import timedelta

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.store import Level, read_agenda
from tests.store import verbs
from tests.store.verbs import ALIAS, HOUR, NOW


def test_nothing_waits(db: None, frozen: None) -> None:
    agenda = read_agenda(ALIAS)
    assert (agenda.now, agenda.levels, agenda.due(), agenda.seconds_until_next()) == (NOW, (), [], None)


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


def test_due_levels_in_order(db: None, frozen: None) -> None:
    """The higher priority first, then the one that waits longest."""
    for level, (priority, since) in {"a": (1, 1), "b": (9, 2), "c": (1, 3), "d": (9, 0), "e": (99, -1)}.items():
        with clock.frozen_at(NOW - since * HOUR):
            verbs.add(level, queue=level, priority=priority)
    assert [level.queue for level in read_agenda(ALIAS).due()] == ["b", "d", "c", "a"]


@pytest.mark.parametrize(("when", "seconds"), [(timedelta(seconds=90), 90.0), (timedelta(), 0.0), (-HOUR, 0.0)])
def test_seconds_until_next(db: None, frozen: None, when: timedelta, seconds: float) -> None:
    verbs.add("later", 5 * HOUR, priority=7)
    verbs.add("next", when, queue="other")
    assert read_agenda(ALIAS).seconds_until_next() == seconds


def test_watermark(db: None, frozen: None) -> None:
    """What became claimable before it is left out, and a level that has nothing else."""
    with clock.frozen_at(NOW - HOUR):
        verbs.add("old", queue="a")
        verbs.add("old too", queue="b")
    verbs.add("new", queue="a")
    assert read_agenda(ALIAS, NOW - HOUR / 2).levels == (Level("a", 0, NOW),)
    assert read_agenda(ALIAS, NOW - HOUR).levels == (Level("a", 0, NOW - HOUR), Level("b", 0, NOW - HOUR))


def test_now_is_the_databases(db: None) -> None:
    assert abs(read_agenda(ALIAS).now - clock.host_now()) < timedelta(minutes=1)
