"""The five fields mean what they mean in Debian's cron, by its rules written down once more."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from django_delayed_tasks import Cron
from django_delayed_tasks.exceptions import InvalidTrigger

BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = {"jan": 1, "feb": 2, "dec": 12, "sun": 0, "mon": 1, "fri": 5, "sat": 6}
SINCE = datetime(2027, 2, 26, 22, 58, tzinfo=UTC)
SHOWN = 12
DAYS = 12 * 366


@st.composite
def parts(draw: st.DrawFn, low: int, high: int) -> str:
    """A star, a number, a name or a range; a star or a range may have a step."""
    first, last = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    step = draw(st.sampled_from(["", "", f"/{draw(st.integers(1, high))}"]))
    names = {12: ["jan", "dec", "jan-feb"], 7: ["mon", "mon-fri", "sun"]}.get(high, ["1"])
    return draw(st.sampled_from(["*" + step, "*", str(first), f"{first}-{last}{step}", *names]))


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.lists(parts(low, high), min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.tuples(*(fields(*bounds) for bounds in BOUNDS)).map(" ".join)


def values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        extent, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if extent == "*" else extent).partition("-")
        begin, end = number(first), number(last or first)
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def number(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


def times(expression: str) -> Iterator[datetime]:
    """Yield the times after ``SINCE``: a field of days that begins with a star is no condition of its own."""
    texts = expression.split()
    minutes, hours, days, months, weekdays = (values(text, *bounds) for text, bounds in zip(texts, BOUNDS, strict=True))
    midnight = SINCE.replace(hour=0, minute=0)
    either = not texts[2].startswith("*") and not texts[4].startswith("*")
    for number in range(DAYS):
        day = midnight + timedelta(days=number)
        suits = (day.day in days, day.isoweekday() in weekdays or (day.isoweekday() == 7 and 0 in weekdays))
        if day.month in months and (any(suits) if either else all(suits)):
            found = (
                day + timedelta(hours=hour, minutes=minute) for hour in sorted(hours) for minute in sorted(minutes)
            )
            yield from (moment for moment in found if moment > SINCE)


@given(EXPRESSIONS)
@settings(max_examples=100, deadline=None)
def test_times_are_those_of_debians_cron(expression: str) -> None:
    expected = list(islice(times(expression), SHOWN))
    try:
        found = Cron(expression, tz="UTC").preview(len(expected), SINCE)
    except InvalidTrigger:  # it never matches
        found = []
    assert found == expected
