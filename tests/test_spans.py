"""Spans of time and moments as people write them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks.support.spans import parse_moment, parse_span, parse_when


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
    ],
)
def test_spans(text: str, span: timedelta) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["", "7", "d", "7 fortnights", "1h 30", "--1h", "1h-30m", "9999999999w", "nan d"])
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
        ("2030-01-31T18:00+01:00", datetime(2030, 1, 31, 17, tzinfo=UTC)),
        ("2030-01-31 18:00", datetime(2030, 1, 31, 17, tzinfo=UTC)),
        ("2030-01-31", datetime(2030, 1, 30, 23, tzinfo=UTC)),
    ],
)
@override_settings(TIME_ZONE="Europe/Berlin")
def test_moments(text: str, when: Any) -> None:
    assert parse_when(text) == when


@pytest.mark.parametrize("text", ["soon", "2030-02-31", "2030-01-31 25:00", "in", "ago", "9999-99-99"])
def test_no_moments(text: str) -> None:
    with pytest.raises(ValueError):
        parse_when(text)
    with pytest.raises(ValueError):
        parse_moment(text)


def test_a_moment_out_of_range() -> None:
    with pytest.raises(ValueError, match="out of range"):
        parse_moment("900000 weeks")
