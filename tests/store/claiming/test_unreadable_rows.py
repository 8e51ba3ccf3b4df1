"""A row that cannot be read, written by other means, does not leave the rows that were due with it claimed and unknown.

On SQLite, where checks can be turned off and whose claim changes the rows before it reads them.
"""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.strategies import sole_writer
from django_delayed_tasks.store.sql.tables import TASK
from tests.store import verbs

__test__ = settings.DDT_DATABASE == "sqlite"
pytestmark = pytest.mark.usefixtures("live_db")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Constraints are not looked at."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        yield
        cursor.execute("PRAGMA ignore_check_constraints = OFF")


def test_none_is_claimed_with_it(unchecked: None) -> None:
    for num in ("good", "bad"):
        verbs.add(num)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {TASK} SET when_time = 'garbage' WHERE biz_num = 'bad'")
    with pytest.raises((AttributeError, ValueError)):
        verbs.claim(sole_writer)
    assert set(Task.objects.values_list("status", "attempts", "version")) == {(TaskStatus.PENDING, 0, 0)}
