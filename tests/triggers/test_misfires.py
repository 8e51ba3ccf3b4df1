"""What a recurring task is run for after times have been missed."""

from datetime import UTC, datetime, timedelta

import pytest

from django_delayed_tasks.triggers import Cron, Interval, Trigger, next_run, run_to_start

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVERY = "*/10 * * * *"


def after(minutes: float) -> datetime:
    return NOON + minutes * MINUTE


def started(trigger: Trigger, now: float, when: float = 0) -> float | None:
    """Return the minute for which a run starts that was planned for minute ``when``."""
    found = run_to_start(trigger, after(when), after(now))
    return None if found is None else (found - NOON) / MINUTE


def followed(trigger: Trigger, now: float, when: float = 0, begun: float | None = None) -> float | None:
    """Return the minute that comes after a run for minute ``when`` that ended at ``now``."""
    found = next_run(trigger, after(when), after(when if begun is None else begun), after(now))
    return None if found is None else (found - NOON) / MINUTE


BOTH = pytest.mark.parametrize(
    "kind", [lambda **how: Cron(EVERY, tz="UTC", **how), lambda **how: Interval(minutes=10, **how)]
)


@BOTH
class TestOnTime:
    @pytest.mark.parametrize("misfire", ["coalesce", "skip", "catch_up"])
    def test_one_after_the_other(self, kind: type[Interval], misfire: str) -> None:
        trigger = kind(misfire=misfire)
        assert started(trigger, 0.01) == 0
        assert followed(trigger, 3) == 10


@BOTH
class TestGraceOfCatchingUp:
    def test_those_that_are_not_too_late_are_run(self, kind: type[Interval]) -> None:
        trigger = kind(misfire="catch_up", grace=1500)
        assert started(trigger, 47) == 30
        assert started(trigger, 55) == 30
        assert started(trigger, 55.1) == 40
        assert followed(trigger, 56, when=40, begun=56) == 50
        assert followed(trigger, 49, when=0, begun=10) == 30

    def test_the_limit_holds_too(self, kind: type[Interval]) -> None:
        assert started(kind(misfire="catch_up", grace=1500, limit=2), 47) == 30
        assert started(kind(misfire="catch_up", grace=1500, limit=1), 47) == 40
        assert started(kind(misfire="catch_up", grace=900, limit=2), 47) == 40

    def test_if_all_are_too_late_none_is(self, kind: type[Interval]) -> None:
        trigger = kind(misfire="catch_up", grace=120)
        assert started(trigger, 47) is None
        assert followed(trigger, 47) == 50
        assert started(trigger, 52) == 50


@BOTH
class TestJitterIsNoLateness:
    @pytest.mark.parametrize("misfire", ["coalesce", "skip", "catch_up"])
    def test_of_the_grace(self, kind: type[Interval], misfire: str) -> None:
        trigger = kind(misfire=misfire, grace=60, jitter=180)
        assert [started(trigger, 4), started(trigger, 4.1)] == [0, None]
        assert [followed(trigger, 14), followed(trigger, 14.1)] == [10, 20]


@BOTH
class TestCoalesce:
    def test_one_run_stands_for_all_that_were_missed(self, kind: type[Interval]) -> None:
        assert started(kind(), 47) == 40
        assert followed(kind(), 48, when=40, begun=47) == 50

    def test_even_if_the_run_still_has_the_first_time(self, kind: type[Interval]) -> None:
        assert followed(kind(), 48, when=0, begun=47) == 50

    def test_what_a_long_run_missed_is_one_run_more(self, kind: type[Interval]) -> None:
        assert followed(kind(), 35) == 30
        assert followed(kind(), 36, when=30, begun=35) == 40

    def test_beyond_the_grace_it_waits_for_the_next(self, kind: type[Interval]) -> None:
        assert started(kind(grace=120), 47) is None
        assert started(kind(grace=120), 41) == 40
        assert followed(kind(grace=120), 35) == 40


@BOTH
class TestSkip:
    def test_what_was_missed_is_not_run(self, kind: type[Interval]) -> None:
        assert started(kind(misfire="skip"), 47) is None
        assert followed(kind(misfire="skip"), 35) == 40

    def test_a_moment_late_is_not_missed(self, kind: type[Interval]) -> None:
        assert started(kind(misfire="skip"), 0.9) == 0
        assert followed(kind(misfire="skip"), 30.5) == 30


@BOTH
class TestCatchUp:
    def test_each_is_run_the_oldest_first(self, kind: type[Interval]) -> None:
        trigger = kind(misfire="catch_up")
        minutes: list[float | None] = [started(trigger, 47)]
        while minutes[-1] is not None and minutes[-1] < 47:
            minutes.append(followed(trigger, 47, when=minutes[-1], begun=47))
        assert minutes == [0, 10, 20, 30, 40, 50]

    def test_up_to_the_limit(self, kind: type[Interval]) -> None:
        trigger = kind(misfire="catch_up", limit=2)
        assert started(trigger, 47) == 30
        assert followed(trigger, 47, when=0) == 30

    def test_within_the_grace(self, kind: type[Interval]) -> None:
        assert followed(kind(misfire="catch_up", grace=3600), 47, when=0) == 10


class TestFromFinish:
    def test_the_pause_is_between_the_runs(self) -> None:
        assert followed(Interval(minutes=10, every="finish"), 35) == 45

    def test_a_late_run_keeps_its_time(self) -> None:
        assert started(Interval(minutes=10, every="finish"), 47) == 0


@BOTH
def test_after_the_end_there_is_nothing(kind: type[Interval]) -> None:
    assert followed(kind(end=after(30)), 35, when=30) is None
    assert followed(kind(end=after(30)), 45) == 30


def test_what_is_early_is_run_as_it_is() -> None:
    assert started(Cron(EVERY, tz="UTC"), now=-1) == 0
