"""Triggers by chance."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from django_delayed_tasks.triggers import Cron, Interval, Misfire, Once, Trigger

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "UTC", "Asia/Kolkata"]
FIRST, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, (LAST - FIRST) // timedelta(microseconds=1)).map(lambda us: FIRST + timedelta(microseconds=us))
SECONDS = st.integers(1, 100_000)


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.integers(1, 20).map(lambda step: f"*/{step}"),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        pair.map(lambda ends: f"{ends[0]},{ends[1]}"),
    )


EXPRESSIONS = st.tuples(_field(0, 59), _field(0, 23), _field(1, 28), _field(1, 12), _field(0, 6)).map(" ".join)
COMMON = st.fixed_dictionaries(
    {},
    optional={
        "misfire": st.sampled_from(Misfire).map(str),
        "limit": st.integers(1, 5),
        "grace": st.one_of(st.none(), SECONDS),
        "jitter": SECONDS,
        "start": MOMENTS,
    },
)
CRONS = st.builds(
    lambda expression, tz, common: Cron(expression, tz=tz, **common), EXPRESSIONS, st.sampled_from(ZONES), COMMON
)
INTERVALS = st.builds(lambda seconds, common: Interval(seconds=seconds, **common), SECONDS, COMMON)
ONCES = st.builds(lambda when: Once(when), MOMENTS)
TRIGGERS: st.SearchStrategy[Trigger] = st.one_of(CRONS, INTERVALS, ONCES)
