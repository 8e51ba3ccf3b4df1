"""Moments that are sent along with a statement arrive as they are, however far from each other they lie."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connection

from django_delayed_tasks.store.sql.dialects import Column, dialect_of
from django_delayed_tasks.store.sql.dialects.sqlite import SQLite

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rows_sent")]

COLUMNS = (Column("place", "int"), Column("moment", "moment"))
NOW = datetime(2026, 11, 25, 12, 30, 15, 999_999, tzinfo=UTC)
MOMENTS = [
    NOW,
    NOW + timedelta(microseconds=1),
    NOW - timedelta(days=1, microseconds=1),
    NOW.replace(microsecond=0),
    NOW.replace(microsecond=70),
    None,
    datetime(1000, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 11, 25, 12, 0, tzinfo=timezone(timedelta(hours=5, minutes=30))),
]


@pytest.mark.parametrize("first", range(len(MOMENTS)))
def test_moments_arrive_as_they_are(first: int) -> None:
    moments = MOMENTS[first:] + MOMENTS[:first]  # each of them may be the one that the others are counted from
    dialect = dialect_of(connection)
    sent = dialect.rows(COLUMNS, list(enumerate(moments)))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {sent.column['place']}, {sent.column['moment']} FROM {sent.source}", sent.parameters)
        found = dict(cursor.fetchall())
    assert [_read(found[place]) for place in range(len(moments))] == moments


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite alone compares moments as texts")
def test_texts_are_those_that_are_stored() -> None:
    dialect = SQLite(connection)  # whichever the tests are tried with
    stored = [None if moment is None else dialect.stored(moment) for moment in MOMENTS]
    assert dialect.sent_moments(MOMENTS, NOW) == stored


def _read(value: object) -> datetime | None:
    """Return what the database has returned for an expression that is no column of a model."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    assert value is None or isinstance(value, datetime)
    return value and value.replace(tzinfo=value.tzinfo or UTC)
