"""What cannot be a trigger is refused when it is made, with the value in the message."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks.exceptions import InvalidTask, InvalidTrigger
from django_delayed_tasks.triggers import Cron, Interval, Once, parse

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "not a cron expression"), ("* * * *", "not a cron expression"), ("61 * * * *", "not a cron expression"),
        ("a b c d e", "not a cron expression"), ("0 0 31 2 *", "not a cron expression|never matches"),
        ("* " * 200, "expected a string"), (None, "expected a string"), (5, "expected a string"),
        ("@reboot", "the nicknames are @hourly, @daily, "), ("@", "nicknames"),
        ("@daily @daily", "nicknames"), ("@daily * * * *", "nicknames"),
    ],
)  # fmt: skip
def test_expression(expression: Any, said: str) -> None:
    with pytest.raises(InvalidTrigger, match=f"^expression=.*({said})"):
        Cron(expression)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("0 25 * * *", "its hour is '25'; expected *, 0 to 23, or a list (1,3)"),
        ("61 * * * *", "its minute is '61'; expected *, 0 to 59, or a list"),
        ("61 0 * * * *", "its second is '61'"),
        ("0 22-2 * * *", "its hour is '22-2'; expected *, 0 to 23, or a list (1,3), an ascending range (1-5)"),
        ("0 0 32 * *", "its day of the month is '32'; expected *, 1 to 31, L, LW, or"),
        ("0 0 1 MAI *", "its month is 'MAI'; expected *, 1 to 12, JAN to DEC, or"),
        ("0 0 * * 8", "its day of the week is '8'; expected *, 0 to 7, SUN to SAT, 5L, 1#2, or"),
        ("0 3 * *", "it has 4 fields; expected minute, hour, day of the month, month, day of the week, and optionally"),
        ("", "it has 0 fields"),
        ("x", "it has 1 field;"),
    ],
)
def test_the_message_names_the_field_and_its_values(expression: str, problem: str) -> None:
    with pytest.raises(InvalidTrigger, match=re.escape(f"is not a cron expression: {problem}")):
        Cron(expression)


@pytest.mark.parametrize("expression", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *"])
def test_fields_that_never_match_together(expression: str) -> None:
    with pytest.raises(InvalidTrigger, match=r"never matches$"):
        Cron(expression)


def test_the_longest_expression() -> None:
    longest = "0 0 * * *".ljust(200)
    assert Cron(longest) == Cron("0 0 * * *")
    with pytest.raises(InvalidTrigger, match="at most 200 characters"):
        Cron(f"{longest} ")


@pytest.mark.parametrize("tz", ["Europe/Atlantis", "", "/etc/passwd", "../UTC", 1, b"UTC", "a\0b"])
def test_zone(tz: Any) -> None:
    with pytest.raises(InvalidTrigger, match=r"^tz="):
        Cron("* * * * *", tz=tz)


@pytest.mark.parametrize(
    ("tz", "meant"),
    [("Europe/Berln", "Europe/Berlin"), ("Berlin", "Europe/Berlin"), ("shanghai", "Asia/Shanghai")],
)
def test_the_zone_that_was_probably_meant(tz: str, meant: str) -> None:
    with pytest.raises(InvalidTrigger, match=rf"did you mean '{meant}'\?$"):
        Cron("* * * * *", tz=tz)


@pytest.mark.parametrize("tz", ["PST", 5])
def test_no_zone_is_guessed(tz: Any) -> None:
    with pytest.raises(InvalidTrigger, match=r"is not a time zone of the IANA database$"):
        Cron("* * * * *", tz=tz)


@pytest.mark.parametrize(
    "length",
    [
        {},
        {"seconds": 0},
        {"minutes": -1},
        {"hours": 1, "minutes": -60},
        {"days": 1e9},
        {"weeks": 5300},
        {"weeks": 1, "days": -7},
        {"seconds": 0.0001},
    ],
)
def test_interval_length(length: dict[str, Any]) -> None:
    with pytest.raises(InvalidTrigger, match=r"^interval="):
        Interval(**length)


@pytest.mark.parametrize("unit", ["minutes", "weeks"])
@pytest.mark.parametrize("value", ["1", None, True, math.nan, math.inf, 1j])
def test_interval_number(unit: str, value: Any) -> None:
    with pytest.raises(InvalidTrigger, match=f"^{unit}="):
        Interval(**{unit: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start", datetime(2026, 1, 1)), ("start", "tomorrow"), ("start", 5), ("end", NOON.date()),  # noqa: DTZ001
        ("start", "0001-01-01T00:00Z"),
        ("end", "0001-01-01T00:00+23:00"), ("jitter", -1), ("jitter", "1"), ("jitter", math.nan), ("grace", -1),
        ("grace", timedelta(days=99999)), ("misfire", "ignore"), ("misfire", None), ("limit", 0), ("limit", 1.5),
        ("limit", True), ("limit", 1001), ("limit", 10**6), ("every", "sometimes"),
    ],
)  # fmt: skip
def test_options(name: str, value: Any) -> None:
    with pytest.raises(InvalidTrigger, match=f"^{name}="):
        Interval(minutes=1, **{name: value})


def test_end_before_start() -> None:
    with pytest.raises(InvalidTrigger, match=r"^end=.*is before start='2026-06-01T12:00:00\+00:00'"):
        Interval(minutes=1, start=NOON, end=NOON - timedelta(seconds=1))


@pytest.mark.parametrize("when", [None, "soon", datetime(2026, 1, 1), 5])  # noqa: DTZ001
def test_once(when: Any) -> None:
    with pytest.raises(InvalidTrigger, match=r"^when="):
        Once(when)


@pytest.mark.parametrize(
    "text",
    [
        "", "Cron", "Cron(", "cron('* * * * *')", "os.system('true')", "Trigger()", "Cron(['* * * * *'])", "Cron()",
        "Cron('* * * * *', unknown=1)", "Interval(5)", "Interval(**{'minutes': 1})", "Interval(minutes=1+1)", "5",
        "Interval(minutes=__import__('os'))", "(" * 300, "Cron('* * * * *')" + " " * 500, "Interval(minutes=1) #\0",
        "Once(when=None)", "Interval(minutes=b'1')", "Interval(minutes=1, minutes=2)", "lambda: 0", None, 5,
    ],
)  # fmt: skip
def test_text(text: Any) -> None:
    with pytest.raises(InvalidTrigger):
        parse(text)


def test_they_are_invalid_tasks() -> None:
    assert issubclass(InvalidTrigger, InvalidTask)
    assert issubclass(InvalidTrigger, ValueError)


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (Cron(" 0  3 * * * "), "Cron('0 3 * * *')"),
        (Cron("0 3 * * *", tz="UTC", misfire="skip"), "Cron('0 3 * * *', tz='UTC', misfire='skip')"),
        (Cron("@hourly"), "Cron('0 * * * *')"),
        (Cron(" @daily ", tz="UTC", jitter=5), "Cron('0 0 * * *', tz='UTC', jitter=5)"),
        (Cron("@midnight"), "Cron('0 0 * * *')"),
        (Cron("@weekly"), "Cron('0 0 * * 0')"),
        (Cron("@monthly"), "Cron('0 0 1 * *')"),
        (Cron("@yearly"), "Cron('0 0 1 1 *')"),
        (Cron("@annually"), "Cron('0 0 1 1 *')"),
        (Interval(minutes=90), "Interval(hours=1, minutes=30)"),
        (Interval(weeks=2, hours=1), "Interval(days=14, hours=1)"),
        (Interval(weeks=0.5), "Interval(days=3, hours=12)"),
        (Interval(seconds=0.5, every="finish"), "Interval(seconds=0.5, every='finish')"),
        (Interval(seconds=1, jitter=timedelta(seconds=2)), "Interval(seconds=1, jitter=2)"),
        (Interval(minutes=-30, hours=1, start=NOON), "Interval(minutes=30, start='2026-06-01T12:00:00+00:00')"),
        (Once(NOON), "Once('2026-06-01T12:00:00+00:00')"),
    ],
)  # fmt: skip
def test_canonical_text(trigger: Any, text: str) -> None:
    assert str(trigger) == text
    assert parse(text) == trigger


@pytest.mark.parametrize(
    ("trigger", "description"),
    [
        (Cron("0 3 * * *"), "At 03:00 every day (Europe/Berlin)"),
        (Interval(minutes=90), "Every 1 hours, 30 minutes"),
        (Interval(days=2, every="finish"), "Every 2 days, counted from the end of the last run"),
        (Cron("@weekly", tz="UTC"), "At 00:00 on Sunday (UTC)"),
        (Interval(weeks=1), "Every 7 days"),
        (Once(NOON), "Once, at 2026-06-01 12:00:00+00:00"),
    ],
)
def test_description(trigger: Any, description: str) -> None:
    assert trigger.description == description


def test_the_longest_text() -> None:
    expression = "Cron('0 0 * * *')"
    assert parse(expression + " " * (500 - len(expression))) == parse(expression)
    with pytest.raises(InvalidTrigger, match="expected a string of at most 500 characters"):
        parse(expression + " " * (501 - len(expression)))


@pytest.mark.parametrize("value", [timedelta(hours=1), 5, NOON])
def test_what_is_no_text_is_refused_with_examples(value: Any) -> None:
    with pytest.raises(
        InvalidTrigger, match=r"^trigger=.*: expected for example Cron\(.*Interval\(minutes=30\) or Once"
    ):
        parse(value)
