"""What a poller finds of tasks that are committed late, below the watermark of their level."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming import agenda_reader
from django_delayed_tasks.executor.claiming.agenda_reader import FullScans
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.agenda import Agenda, read_agenda
from tests.executor.parts import Bench, add, handler_of

pytestmark = pytest.mark.django_db


def database_now() -> datetime:
    return read_agenda("default").now


def add_below_the_watermark(num: str) -> None:
    """A task as one that is committed by a transaction that was open for a minute."""
    add(num)
    Task._base_manager.filter(biz_num=num).update(claim_at=database_now() - timedelta(minutes=1))


def sweeps_took(bench: Bench, *seconds: float) -> None:
    """Note the seconds of all full scans so far; the last one has just ended."""
    bench.poller.reader.scans = FullScans()
    for took in seconds:
        bench.poller.reader.scans.note(clock.monotonic(), took)


def full_scans_are_slow(bench: Bench) -> None:
    """Make full scans slow, as they are if there are many finished tasks that the database could not remove."""
    sweeps_took(bench, 0.0, 0.1, 0.1)


class TestCommittedLate:
    def test_is_found_at_once(self, bench: Bench) -> None:
        handler_of(lambda task: None)
        bench.poller.poll()
        add_below_the_watermark("late")
        bench.poller.poll()
        assert bench.numbers == ["late"]

    def test_or_at_the_next_full_scan_where_those_are_slow(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        handler_of(lambda task: None)
        add("first", when=timedelta(hours=1))
        now = clock.monotonic()
        monkeypatch.setattr(clock, "monotonic", lambda: now)
        bench.poller.poll()
        full_scans_are_slow(bench)
        add_below_the_watermark("late")
        bench.poller.poll()
        assert bench.numbers == (["late"] if connection.vendor == "sqlite" else [])
        monkeypatch.setattr(clock, "monotonic", lambda: now + 2.1)
        monkeypatch.setattr(bench.lease, "claims_until", float("inf"))
        bench.poller.poll()
        assert bench.numbers == ["late"]

    def test_during_a_slow_reading_it_is_found_by_the_next_look(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        handler_of(lambda task: None)
        add("first", when=timedelta(hours=1))
        seconds = [clock.monotonic()]
        monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
        monkeypatch.setattr(bench.lease, "claims_until", float("inf"))

        def slow(alias: str) -> Agenda:
            seconds[0] += 10.0
            return read_agenda(alias)

        monkeypatch.setattr(agenda_reader, "read_agenda", slow)
        bench.poller.poll()
        full_scans_are_slow(bench)
        add("late")
        Task._base_manager.filter(biz_num="late").update(claim_at=database_now() - timedelta(seconds=9))
        bench.poller.poll()
        assert bench.numbers == ["late"]

    def test_which_comes_long_before_the_next_poll(self, make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A commit of this process wakes the executor once: it must not sleep over what only a full scan sees."""
        bench = make_bench(poll_interval=600.0)
        handler_of(lambda task: None)
        now = clock.monotonic()
        monkeypatch.setattr(clock, "monotonic", lambda: now)
        bench.poller.poll()
        full_scans_are_slow(bench)
        add_below_the_watermark("late")
        pause = bench.poller.poll()
        monkeypatch.setattr(clock, "monotonic", lambda: now + pause)
        monkeypatch.setattr(bench.lease, "claims_until", float("inf"))
        bench.poller.poll()
        assert pause <= 2.0
        assert bench.numbers == ["late"]

    def test_a_database_that_is_far_away_is_no_slow_one(self, bench: Bench) -> None:
        handler_of(lambda task: None)
        bench.poller.poll()
        sweeps_took(bench, 0.099, 0.1, 0.1)
        add_below_the_watermark("late")
        bench.poller.poll()
        assert bench.numbers == ["late"]

    def test_a_drain_does_not_end_without_it(self, make_bench: Any) -> None:
        bench = make_bench(drain=True)
        handler_of(lambda task: None)
        bench.poller.poll()
        full_scans_are_slow(bench)
        bench.poller.poll()
        add_below_the_watermark("late")
        bench.poller.poll()
        bench.poller.poll()
        assert bench.numbers == ["late"]


@pytest.mark.per_database
class TestOnALevelWithoutOthers:
    """Looks at the known levels do not find such a task on MariaDB and MySQL, where full scans are made more often."""

    def test_is_found_soon_where_full_scans_are_slow(self, make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        bench = make_bench()
        handler_of(lambda task: None)
        seconds = [clock.monotonic()]
        monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
        bench.poller.poll()
        full_scans_take(bench, 0.02)
        add("at once")
        assert bench.poller.poll() <= 0.2 or bench.numbers
        seconds[0] += 0.2
        bench.poller.poll()
        assert bench.numbers == ["at once"]

    def test_is_found_soon_beside_a_flow(self, make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a higher priority, for example."""
        bench = make_bench(threads=1, batch_size=1)
        handler_of(lambda task: None)
        for number in range(9):
            add(str(number))
        seconds = [clock.monotonic()]
        monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
        bench.poller.poll()
        full_scans_take(bench, 0.02)
        add("urgent", priority=10)
        for _ in range(4):
            bench.finish(bench.delivered[-len(bench.held) :])
            seconds[0] += 0.06
            bench.poller.poll()
        assert "urgent" in bench.numbers

    def test_full_scans_take_a_tenth_of_the_time_at_most(
        self, make_bench: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And a hundredth where looks find such a task."""
        bench = make_bench()
        now = clock.monotonic()
        monkeypatch.setattr(clock, "monotonic", lambda: now)
        full_scans_take(bench, 0.02)
        pause = bench.poller.reader.seconds_until_full_scan()
        assert pause == pytest.approx(0.2 if connection.vendor == "mysql" else 2.0)


def full_scans_take(bench: Bench, excess: float) -> None:
    """Note full scans that take longer than the quickest one."""
    for took in (0.0, excess, excess):
        bench.poller.reader.scans.note(clock.monotonic(), took)
