"""What is held in two databases, of which one does not answer for a while."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from pytest_django import DjangoDbBlocker

from django_delayed_tasks.leases import mutex
from django_delayed_tasks.models import Resource
from tests.leases.rows import make_due
from tests.waiting import wait_until

pytestmark = pytest.mark.per_database

HERE, ELSEWHERE = "here", "elsewhere"


@contextmanager
def file(alias: str, folder: Path) -> Iterator[None]:
    """A database of its own, which another process may lock for long."""
    options = {"timeout": 60, "transaction_mode": "IMMEDIATE"}
    entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / alias), "OPTIONS": options}
    both: Any = {"default": connections.settings["default"], alias: entry}
    connections.settings[alias] = connections.configure_settings(both)[alias]
    call_command("migrate", "django_delayed_tasks", database=alias, verbosity=0)
    try:
        yield
    finally:
        BaseDatabaseWrapper.close(connections[alias])
        del connections[alias], connections.settings[alias]


@pytest.fixture
def two(tmp_path: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Two databases that this test alone uses."""
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        for alias in (HERE, ELSEWHERE):
            stack.enter_context(file(alias, tmp_path))
        yield


def renewed_at() -> Any:
    return Resource.objects.using(HERE).get(name="index").renewed_at


@pytest.mark.usefixtures("two")
def test_one_that_does_not_answer_costs_nothing_held_in_the_other() -> None:
    with mutex("index", ttl=1, using=ELSEWHERE) as stuck, mutex("index", ttl=600, using=HERE) as lease:
        with transaction.atomic(using=ELSEWHERE):
            wait_until(lambda: not stuck.is_held)
            before = renewed_at()
            make_due(lease)
            wait_until(lambda: renewed_at() > before)
            assert not stuck.is_held
        lease.check()
