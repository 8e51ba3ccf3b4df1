"""What was read of the agenda ages: the poller reads it again before it relies on it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming.agenda_reader import FullScans
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.agenda import FRESH
from tests.executor.parts import Bench, add, handler_of

pytestmark = pytest.mark.django_db
EACH_IS_COMPLETE = connection.vendor == "sqlite"
"""Whether each reading of the agenda is a full scan, so that none starts from what is known."""


def storm(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> float:
    """Five due tasks, of which the first was claimed at the second that is returned, and has ended."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    handler_of(lambda task: None)
    for number in range(5):
        add(str(number))
    bench.poller.poll()
    bench.finish(bench.delivered)
    return now


@pytest.mark.parametrize(
    ("seconds", "poll_interval", "is_next"),
    [(1.0, 60.0, True), (FRESH + 0.001, 60.0, True), (FRESH / 2, 60.0, False), (0.002, 0.001, True)],
)
def test_what_is_more_urgent_is_next(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, poll_interval: float, is_next: bool
) -> None:
    """Although there is more of what was known before: it is so for a twentieth of a second, or one interval."""
    bench = make_bench(threads=1, batch_size=1, poll_interval=poll_interval)
    now = storm(bench, monkeypatch)
    add("urgent", priority=10)
    monkeypatch.setattr(clock, "monotonic", lambda: now + seconds)
    bench.poller.poll()
    assert bench.numbers == ["0", "urgent" if is_next else "1"]


def test_a_twentieth_of_a_second_at_most() -> None:
    assert FRESH <= 0.05


def test_after_an_error_nothing_is_known(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(threads=1, batch_size=1)
    storm(bench, monkeypatch)
    add("urgent", priority=10)
    bench.poller.forget()
    bench.poller.poll()
    assert bench.numbers == ["0", "urgent"]


def full_scans_are_slow(bench: Bench) -> None:
    """Make full scans slow, so that the next reading is not one."""
    bench.poller.reader.scans = FullScans()
    for took in (0.0, 0.1, 0.1):
        bench.poller.reader.scans.note(clock.monotonic(), took)


def test_nor_where_levels_begin(bench: Bench) -> None:
    """The next reading is a full scan, however slow those are."""
    handler_of(lambda task: None)
    bench.poller.poll()
    full_scans_are_slow(bench)
    bench.poller.poll()
    assert bench.poller.found_nothing is EACH_IS_COMPLETE
    bench.poller.forget()
    bench.poller.poll()
    assert bench.poller.found_nothing


def test_each_reading_tells_the_time_of_the_database(bench: Bench) -> None:
    """The database's time may differ from that of this host, and may be set meanwhile."""
    for ahead in (timedelta(hours=1), timedelta(hours=-1)):
        with clock.frozen_at(clock.host_now() + ahead):
            executors.renew("default", bench.lease.executor, timedelta(seconds=15))
            bench.poller.poll()
        assert abs(bench.clock.now() - clock.host_now() - ahead) < timedelta(minutes=5)


def test_only_a_full_scan_tells_that_nothing_is_left(make_bench: Any) -> None:
    """A reading that starts from what is known may not see what was committed late."""
    bench = make_bench(drain=True)
    handler_of(lambda task: None)
    bench.poller.poll()
    assert bench.poller.found_nothing
    full_scans_are_slow(bench)
    bench.poller.poll()
    assert bench.poller.found_nothing is EACH_IS_COMPLETE
    bench.poller.poll()
    assert bench.poller.found_nothing
