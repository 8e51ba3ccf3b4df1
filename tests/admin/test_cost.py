"""What a page of a list reads does not depend on how many rows there are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client

from django_delayed_tasks import pause_queue
from django_delayed_tasks.admin.lists import filters
from django_delayed_tasks.admin.tasks import errors
from django_delayed_tasks.admin.tasks import list as task_list
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin.rows import CODE, HOUR, NOW, OTHER, executor, list_of, new_run, new_task

pytestmark = pytest.mark.per_database

FEW, MANY = 1_000, 4_000
LEVELS = [("default", 0), ("default", 5), ("mail", 0)]

Page = tuple[str, dict[str, str]]
PAGES: list[Page] = [
    ("task", {}),
    ("task", {"p": "9"}),
    ("task", {"status__exact": "0"}),
    ("task", {"status__exact": "1"}),
    ("task", {"status__exact": "2"}),
    ("task", {"status__exact": "3"}),
    ("task", {"code": CODE}),
    ("task", {"code": CODE, "p": "3"}),
    ("task", {"code": CODE, "status__exact": "0"}),
    ("task", {"queue": "mail"}),
    ("task", {"queue": "nowhere"}),
    ("task", {"due": "overdue"}),
    ("task", {"due": "hour"}),
    ("task", {"q": "x"}),
    ("task", {"q": "17"}),
    ("task", {"q": "x", "queue": "mail"}),
    ("task", {"o": "1"}),
    ("task", {"o": "-4"}),
    ("taskrun", {"o": "1"}),
    ("taskrun", {}),
    ("taskrun", {"p": "9"}),
    ("taskrun", {"outcome": "3"}),
    ("taskrun", {"finished_within": "hour"}),
    ("taskrun", {"code": CODE}),
    ("taskrun", {"q": "x"}),
    ("executor", {}),
    ("pausedqueue", {}),
]

Meter = Callable[[], int]


class Steps:
    """Counts SQLite's steps, by the hundred."""

    def __init__(self) -> None:
        self.count = 0
        connection.ensure_connection()
        connection.connection.set_progress_handler(self.step, 100)

    def step(self) -> int:
        self.count += 1
        return 0


def entries_read_by_innodb() -> int:
    """Entries of tables and indexes that this session has read."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in cursor.fetchall())


def entries_read_by_postgres() -> int:
    """Entries of tables and indexes that this transaction has read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class"
            " WHERE relname LIKE 'django_delayed_tasks%' OR relname LIKE 'ddt_%'"
        )
        return int(cursor.fetchone()[0])


@contextmanager
def meter(database: str) -> Iterator[Meter]:
    """Tells what has been read so far, in this database's measure."""
    if database == "sqlite":
        steps = Steps()
        yield lambda: steps.count
        connection.connection.set_progress_handler(None, 0)
    else:
        yield entries_read_by_postgres if database == "postgres" else entries_read_by_innodb


@contextmanager
def plans_by_index(database: str) -> Iterator[None]:
    """PostgreSQL's statistics are a sample: which of two plans that cost the same it takes is chance.

    What counts is that there is an index to follow, at the price that a big table would have it followed for.
    """
    if database != "postgres":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET enable_bitmapscan = off; SET enable_seqscan = off")
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET enable_bitmapscan; RESET enable_seqscan")


def fill(first: int, last: int) -> None:
    """Pending tasks of two codes on three levels, most of them later; a history."""
    tasks, runs = [], []
    for i in range(first, last):
        queue, priority = LEVELS[i % 3]
        when = NOW + HOUR + timedelta(minutes=1 + i)
        code = CODE if i % 9 < 4 else OTHER  # fewer than half: the estimate of what is pending, which MySQL compares
        tasks.append(new_task(f"{i}", when, queue=queue, priority=priority, biz_code=code))
        runs.append(new_run(f"{i}", biz_code=code))
    Task._base_manager.bulk_create(tasks, batch_size=2000)
    TaskRun.objects.bulk_create(runs, batch_size=2000)


def fill_with_what_is_rare() -> None:
    """Some tasks of every other kind, and a paused queue with a part of the waiting ones."""
    pause_queue("mail")
    owner = executor()
    for i in range(30):
        new_task(f"overdue {i}", NOW - HOUR, claim_at=NOW - HOUR).save_base()
        new_task(f"failed {i}", status=TaskStatus.FAILED).save_base()
        new_task(f"paused {i}", status=TaskStatus.PAUSED, trigger="Interval(hours=1)").save_base()
        new_task(f"running {i}", status=TaskStatus.RUNNING, executor=owner.pk).save_base()
        new_run(f"failed {i}", RunOutcome.FAILED).save()


def measured(client: Client, database: str, pages: list[Page] = PAGES) -> dict[str, int]:
    """Return what each page reads."""
    found = {}
    statement = {"sqlite": "ANALYZE", "postgres": "ANALYZE"}
    with connection.cursor() as cursor:
        cursor.execute(statement.get(database, f"ANALYZE TABLE {Task._meta.db_table}, {TaskRun._meta.db_table}"))
    for name, condition in pages:
        model, _, view = name.partition("/")
        with transaction.atomic(), meter(database) as read:
            before = read()
            response = client.get(list_of(model) + view, condition)
            found[f"{name} {condition}"] = read() - before
            assert response.status_code == 200
    return found


@pytest.mark.usefixtures("frozen")
def test_cost_of_pages(live_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "RECENT", 500)
    monkeypatch.setattr(task_list, "RECENT", FEW)
    client: Any = Client()
    client.force_login(User.objects.create_superuser("boss"))
    fill_with_what_is_rare()
    with plans_by_index(live_db):
        fill(0, FEW)
        take_survey("default")
        few = measured(client, live_db)
        fill(FEW, MANY)
        many = measured(client, live_db)
    grown = {page: (few[page], many[page]) for page in few if many[page] > 1.5 * few[page] + 50}
    assert not grown
    assert max(many.values()) < 2 * MANY or live_db == "sqlite"


def grown_pages(
    live_db: str, pages: list[Page], fill_tasks: Callable[[int, int], None], few: int = 1_200
) -> dict[str, tuple[int, int]]:
    """Return the pages that read more if there are two and a half times as many tasks: what they read of both."""
    client: Any = Client()
    client.force_login(User.objects.create_superuser("boss"))
    with plans_by_index(live_db):
        fill_tasks(0, few)
        before = measured(client, live_db, pages)
        fill_tasks(few, few * 5 // 2)
        after = measured(client, live_db, pages)
    return {page: (before[page], after[page]) for page in before if after[page] > 1.1 * before[page] + 50}


@pytest.mark.usefixtures("frozen")
def test_cost_of_what_is_due(live_db: str) -> None:
    """The due tasks of a queue, paused or not, are counted no further than a thousand."""
    pause_queue("mail")

    def fill_due(first: int, last: int) -> None:
        Task._base_manager.bulk_create(
            new_task(f"{i}", NOW - HOUR, claim_at=NOW - HOUR + timedelta(seconds=i), queue=("mail", "shop")[i % 2])
            for i in range(first, last)
        )

    pages: list[Page] = [("pausedqueue", {}), ("task", {"due": "overdue", "queue": "mail"})]
    assert not grown_pages(live_db, pages, fill_due, few=2_400)  # more than a thousand in each queue


@pytest.mark.usefixtures("frozen")
def test_cost_of_what_has_failed(live_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed tasks of each level are read no further than a page needs."""
    monkeypatch.setattr(errors, "MAX_TASKS", 300)

    def fill_failed(first: int, last: int) -> None:
        Task._base_manager.bulk_create(
            new_task(
                f"{i}", claim_at=NOW - timedelta(seconds=i), status=TaskStatus.FAILED,
                queue=LEVELS[i % 3][0], priority=LEVELS[i % 3][1],
            )
            for i in range(first, last)
        )  # fmt: skip

    assert not grown_pages(live_db, [("task", {}), ("task", {"status__exact": "2"}), ("task/errors/", {})], fill_failed)
