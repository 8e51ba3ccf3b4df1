"""Spans of time and moments as people write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks.support.spans import parse_moment, parse_span, parse_when
from django_delayed_tasks.triggers.values import MAX_SPAN


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1 hour, 30 min", timedelta(minutes=90)),
        (" 2 Weeks ", timedelta(days=14)),
        ("1.5d", timedelta(hours=36)),
        ("-30m", timedelta(minutes=-30)),
        ("0s", timedelta()),
        ("45 mins", timedelta(minutes=45)),
        ("90 secs", timedelta(seconds=90)),
        ("1小时30分钟", timedelta(minutes=90)),
    ],
)
def test_spans(text: str, span: timedelta) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize(
    "text",
    ["", "7", "d", "7 fortnights", "1h 30", "--1h", "1h-30m", "30m 30m", "1h 2 hours", "9999999w", "-36601d", "nan d"],
)
def test_no_spans(text: str) -> None:
    with pytest.raises(ValueError):
        parse_span(text)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("now", None),
        ("in 30 minutes", timedelta(minutes=30)),
        ("+5m", timedelta(minutes=5)),
        ("2 hours ago", timedelta(hours=-2)),
        ("In 1 h 30 min", timedelta(minutes=90)),
        ("30 分钟后", timedelta(minutes=30)),
        ("3天前", timedelta(days=-3)),
        ("2030-01-31T18:00+01:00", datetime(2030, 1, 31, 17, tzinfo=UTC)),
        ("2030-01-31 18:00", datetime(2030, 1, 31, 17, tzinfo=UTC)),
        ("2030-01-31", datetime(2030, 1, 30, 23, tzinfo=UTC)),
    ],
)
@override_settings(TIME_ZONE="Europe/Berlin")
def test_moments(text: str, when: Any) -> None:
    assert parse_when(text) == when


@pytest.mark.parametrize(
    "text", ["soon", "2030-02-31", "2030-01-31 25:00", "in", "ago", "in 2 days ago", "+1h 前", "9999-99-99"]
)
def test_no_moments(text: str) -> None:
    with pytest.raises(ValueError):
        parse_when(text)
    with pytest.raises(ValueError):
        parse_moment(text)


@pytest.mark.parametrize("text", ["900000 weeks", "in 9999999999 d", "36601d", "40000 days ago"])
def test_a_span_is_of_at_most_a_hundred_years(text: str) -> None:
    for parse in (parse_moment, parse_when):
        with pytest.raises(ValueError, match="more than a hundred years"):
            parse(text)
    assert parse_span("36600d") == -parse_span("-36600d") == MAX_SPAN


@pytest.mark.parametrize(
    ("zone", "text", "said"),
    [
        ("Europe/Berlin", "2026-03-29 02:30", "does not exist in Europe/Berlin.*'2026-03-29 01:30:00+01:00' or "),
        ("Europe/Berlin", "2026-10-25 02:30", "comes twice.* write '2026-10-25 02:30:00+02:00' or '2026-10-25 02:30"),
        ("Australia/Lord_Howe", "2026-10-04 02:29", "does not exist.* or '2026-10-04 02:59:00+11:00'"),
        ("Australia/Lord_Howe", "2026-04-05 01:30", "comes twice.* or '2026-04-05 01:30:00+10:30'"),
        ("Antarctica/Troll", "2026-10-25T01:30", "comes twice.*'2026-10-25 01:30:00+02:00' or "),
        ("Pacific/Apia", "2011-12-30 12:00", "does not exist.*'2011-12-29 12:00:00-10:00' or '2011-12-31 12:00"),
        ("America/Sao_Paulo", "2018-11-04", "does not exist.* or '2018-11-04 01:00:00-02:00'"),
    ],
)
def test_a_local_time_that_does_not_exist_or_comes_twice_is_refused(zone: str, text: str, said: str) -> None:
    with override_settings(TIME_ZONE=zone):
        for parse in (parse_moment, parse_when):
            with pytest.raises(ValueError, match=said.replace("+", r"\+")) as refused:
                parse(text)
        for offered in re.findall(r"'([^']*)'", str(refused.value))[1:]:
            assert isinstance(parse_when(offered), datetime)


def test_local_times_next_to_a_change_are_taken() -> None:
    with override_settings(TIME_ZONE="Australia/Lord_Howe"):
        assert parse_when("2026-10-04 02:30") == datetime(2026, 10, 3, 15, 30, tzinfo=UTC)
        assert parse_when("2026-04-05 02:00") == datetime(2026, 4, 4, 15, 30, tzinfo=UTC)
