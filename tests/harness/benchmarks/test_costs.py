"""The benchmarks' counts, on a small scale: rows read, statements and commits, and never a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settlement import Settlement
from harness.benchmarks import stock
from harness.benchmarks.counts import Counts, counted
from tests.executor.parts import Bench
from tests.executor.runs import run_one
from tests.store import verbs
from tests.store.meters import UNIT
from tests.store.verbs import ALIAS, HOUR

pytestmark = pytest.mark.per_database

LEVELS, QUEUES, BATCH = 50, 10, 100
FEW, MANY = 10_000, 20_000


@pytest.fixture(autouse=True)
def without_autovacuum(live_db: str) -> Iterator[None]:
    """Keep PostgreSQL's autovacuum away: while it looks at a table, claims read the entries of settled tasks again."""
    if live_db != "postgres":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Task._meta.db_table} SET (autovacuum_enabled = false)")
        yield
        cursor.execute(f"ALTER TABLE {Task._meta.db_table} RESET (autovacuum_enabled)")


def add_due(number: str, priority: int = 0) -> None:
    """A batch at a level where others wait for later."""
    api.add_tasks(verbs.task(f"{number} {i:03}", -HOUR, priority=priority) for i in range(BATCH))


def claim() -> list[ClaimedTask]:
    """A batch, as an executor would."""
    watermark = read_agenda(ALIAS).due()[0].earliest - timedelta(seconds=5)
    return verbs.claim(strategy_for(ALIAS, "auto"), limit=BATCH, watermark=watermark)


def settle_all(claimed: list[ClaimedTask]) -> None:
    verbs.settle(*map(verbs.done, claimed))


def cost(action: Callable[[], object]) -> Counts:
    with counted(connection) as counts:
        action()
    return counts


def sent(action: Callable[[], object]) -> tuple[int, int]:
    """Statements and commits."""
    counts = cost(action)
    return counts.statements, counts.commits


def claims_cost(number: str, priority: int) -> Counts:
    """Return the cost of one claim, without the agenda that gives its watermark.

    Each claim has a level of its own: PostgreSQL counts the entries of settled tasks, too, for as long as any snapshot
    of the database may need them.
    """
    add_due(number, priority)
    watermark = read_agenda(ALIAS).due()[0].earliest - timedelta(seconds=5)
    strategy = strategy_for(ALIAS, "auto")
    claimed: list[ClaimedTask] = []
    counts = cost(lambda: claimed.extend(verbs.claim(strategy, limit=BATCH, priority=priority, watermark=watermark)))
    assert len(claimed) == BATCH
    settle_all(claimed)
    return counts


def test_claims_under_a_backlog(live_db: str) -> None:
    """Two rows read for each that is claimed, once to find it and once to change it, however many wait."""
    stock.add_waiting(0, FEW, LEVELS)
    claims_cost(
        "first", priority=0
    )  # on MariaDB and MySQL, a connection says before its first claim how long it waits for locks
    few = claims_cost("few", priority=1)
    stock.add_waiting(FEW, MANY, LEVELS)
    many = claims_cost("many", priority=2)
    assert Task.objects.count() == MANY
    assert many.rows == few.rows <= 2 * BATCH * UNIT.get(live_db, 1)
    assert (few.statements, few.commits) == (1 if live_db in ("postgres", "sqlite") else 2, 1)


def test_an_agenda_over_a_backlog(live_db: str) -> None:
    stock.add_waiting(0, FEW, LEVELS)
    agenda = cost(lambda: read_agenda(ALIAS))
    assert len(read_agenda(ALIAS).levels) == LEVELS
    assert agenda.rows <= 2 * LEVELS * UNIT.get(live_db, 1)
    assert (agenda.statements, agenda.commits) == (1, 0)


def test_a_settled_batch(live_db: str) -> None:
    """The history in one statement, the tasks in another, one commit."""
    add_due("due")
    claimed = claim()
    settled = cost(lambda: settle_all(claimed))
    assert TaskRun.objects.count() == BATCH
    assert (settled.statements, settled.commits) == (2, 1)
    assert settled.rows <= 4 * BATCH * UNIT.get(live_db, 1)
    add_due("unrecorded")
    unrecorded: list[Settlement] = [verbs.done(task, keep=False) for task in claim()]
    assert sent(lambda: verbs.settle(*unrecorded)) == (1, 1)


def test_adding(live_db: str) -> None:
    added = cost(lambda: verbs.add("1", HOUR))
    assert (added.statements, added.commits) == (1, 1)
    assert added.rows <= 5 * UNIT.get(live_db, 1)
    some = [verbs.task(f"bulk {i}", HOUR) for i in range(1000)]
    assert sent(lambda: api.add_tasks(some, batch_size=500)) == (4, 2)


def test_an_atomic_run(live_db: str) -> None:
    """What its handler does, the task, the history; one commit."""

    class Reading(TaskHandler):
        atomic = True

        def handle(self, task: ClaimedTask) -> None:
            Task.objects.exists()

    verbs.add("1")
    task = verbs.claim_one()
    assert sent(lambda: run_one(task, Reading(), DatabaseClock())) == (1 + 2, 1)
    assert not Task.objects.exists()


@contextmanager
def polling() -> Iterator[Bench]:
    """A poller that has looked once."""
    bench = Bench()
    try:
        bench.poller.poll()
        yield bench
    finally:
        bench.end()


@pytest.mark.parametrize("levels", [1, LEVELS])
def test_an_idle_poll(live_db: str, levels: int) -> None:
    """It reads the agenda, and writes nothing."""
    stock.add_waiting(0, FEW, levels)
    with polling() as bench:
        poll = cost(bench.poller.poll)
        assert bench.delivered == []
    assert poll.rows <= (2 * levels + 10) * UNIT.get(live_db, 1)
    assert (poll.statements, poll.commits) == (1, 0)


def test_the_counts_see_a_scan(live_db: str) -> None:
    stock.add_waiting(0, FEW, LEVELS)
    assert cost(lambda: list(Task.objects.filter(version=77))).rows >= FEW
