"""What has to wait for a limit is moved out of the way of those behind it."""

import pytest
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming import postpone as postpone_module
from django_delayed_tasks.store.claiming.postpone import details, look_at_head, postpone, pull_forward
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.sql.tables import TASK
from tests.store import verbs
from tests.store.meters import reads, statements
from tests.store.verbs import ALIAS, EXECUTOR

pytestmark = pytest.mark.django_db

REQUEST = ClaimRequest(EXECUTOR, "default", 0, 10)
DELAY = (10.0, 20.0)


def add_many(count: int, code: str = "full") -> None:
    api.add_tasks(Task(biz_code=code, biz_num=f"{number:05}", when=None) for number in range(count))


def postpone_head(code: str = "full") -> None:
    postpone(ALIAS, [claim for claim, of in look_at_head(ALIAS, REQUEST) if of == code], DELAY)


def test_postponed_in_its_order() -> None:
    add_many(150)
    before = {row.biz_num: row for row in Task.objects.all()}
    postpone_head()
    after = list(Task.objects.order_by("claim_at", "id"))
    assert [row.biz_num for row in after] == [f"{number:05}" for number in range(150)]
    for row in after:
        delay = (row.claim_at - before[row.biz_num].claim_at).total_seconds()
        assert 10 <= delay <= 60  # a slow machine's clock advances
        assert (row.when, row.attempts, row.version) == (before[row.biz_num].when, 0, before[row.biz_num].version + 1)
    assert (after[-1].claim_at - after[0].claim_at).total_seconds() == pytest.approx(9, abs=0.1)


def test_others_stay_and_can_be_claimed() -> None:
    add_many(150)
    verbs.add("behind")
    postpone_head()
    assert [run.biz_num for run in verbs.claim()] == ["behind"]


def test_one() -> None:
    add_many(1)
    postpone_head()
    assert verbs.claim() == []


def test_what_changed_meanwhile_is_left_alone() -> None:
    """An add between the look and the change is not undone, and a claim is not disturbed."""
    add_many(20)
    head = [claim for claim, _ in look_at_head(ALIAS, REQUEST)]
    api.add_task(Task(biz_code="full", biz_num="00007", when=None, biz_ext="new"))
    [run] = [run for run in verbs.claim(limit=9) if run.biz_num == "00008"]
    postpone(ALIAS, head, DELAY)
    assert {run.biz_num for run in verbs.claim()} == {"00007"}
    assert (verbs.present("00008", "full").status, verbs.present("00008", "full").version) == (1, run.version)


def test_of_one_level_only() -> None:
    add_many(15)
    api.add_tasks(Task(biz_code="full", biz_num=f"p{number}", when=None, priority=5) for number in range(15))
    add_many(10, "fine")
    postpone_head()
    assert len(verbs.claim(limit=200)) == 10
    assert len(verbs.claim(limit=200, priority=5)) == 15


def test_details_of_what_is_as_it_was_read() -> None:
    verbs.add("1", biz_ext={"customer": "x"})
    verbs.add("2")
    head = [claim for claim, _ in look_at_head(ALIAS, REQUEST)]
    verbs.add("2", biz_ext="new")
    assert [(task.biz_num, task.biz_ext) for task in details(ALIAS, head)] == [("1", {"customer": "x"})]


def test_pulled_forward_again() -> None:
    add_many(15)
    add_many(1, "other")
    api.add_task(Task(biz_code="full", biz_num="later", when=verbs.HOUR))
    verbs.settle(*(verbs.released(run, verbs.HOUR) for run in verbs.claim()))
    api.add_task(Task(biz_code="full", biz_num="retried", when=None))
    verbs.settle(*(verbs.retry(run) for run in verbs.claim()))
    assert pull_forward(ALIAS, ["full"]) == 15
    assert sorted(run.biz_num for run in verbs.claim()) == [f"{number:05}" for number in range(15)]
    assert pull_forward(ALIAS, []) == 0


def test_what_is_read_does_not_grow_with_the_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL finds 500 of 10,000 rows that lie far apart by reading them all, which is cheaper; but not 20."""
    head = 20
    monkeypatch.setattr(postpone_module, "HEAD", head)

    def looked_at() -> int:
        with reads() as meter, statements() as sent:
            postpone_head()
        assert len(sent) == 2
        return meter.total

    add_many(head)
    few = looked_at()
    Task.objects.all().delete()
    add_many(500 * head)
    if connection.vendor == "postgresql":
        lie_far_apart()
    assert looked_at() <= 3 * few  # a bitmap scan counts each row twice


def lie_far_apart() -> None:
    """Write new versions of all rows, so that neighbors by id are no neighbors in the table, as in one that is old."""
    with connection.cursor() as cursor:
        for remainder in range(7):
            cursor.execute(f"UPDATE {TASK} SET executor = executor WHERE id %% 7 = {remainder}", [])
        cursor.execute("ANALYZE")
