"""What the database itself refuses from every writer."""

import pytest
from django.db import DatabaseError, connection, transaction

from django_delayed_tasks.store.sql.tables import TASK
from tests.store import verbs

pytestmark = pytest.mark.django_db

# Moments that some database keeps and Python cannot read.
UNREADABLE = {
    "postgresql": ["infinity", "-infinity", "0044-03-15 12:00:00+00 BC", "12026-01-01 00:00:00+00"],
    "mysql": ["0000-00-00 00:00:00", "0999-12-31 23:59:59"],
    "sqlite": ["soon", "", "0000-00-00", "-1"],
}
COLUMNS = ("when_time", "claim_at", "deferred_when")
CASES = [(column, moment) for column in COLUMNS for moment in UNREADABLE[connection.vendor]]


@pytest.mark.parametrize(("column", "moment"), CASES)
def test_a_moment_that_python_cannot_read(column: str, moment: str) -> None:
    verbs.add("a")
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {TASK} SET {column} = %s", [moment])
    assert verbs.present("a").when is not None


def test_no_deferred_moment_is_all_right() -> None:
    verbs.add("a")
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {TASK} SET deferred_when = NULL")
