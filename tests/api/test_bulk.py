"""add_tasks."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.models import NUM_LENGTH, Task
from django_delayed_tasks.states import TaskStatus
from tests.store import verbs
from tests.store.verbs import CODE, HOUR, NOW

pytestmark = pytest.mark.per_database


def many(count: int, **fields: object) -> Iterator[Task]:
    return (verbs.task(f"{i:05}", NOW, **fields) for i in range(count))


def versions() -> dict[str, tuple[int, object]]:
    return {row.biz_num: (row.version, row.biz_ext) for row in Task.objects.all()}


def test_many_thousands(db: None) -> None:
    """Created, then replaced, in batches of any size."""
    assert api.add_tasks(many(8_000, biz_ext={"n": 1}, priority=3), batch_size=3000) == 8_000
    assert api.add_tasks(many(2_000, biz_ext={"n": 2}), batch_size=300) == 2_000
    assert api.add_tasks(many(2_000), if_exists="keep") == 0
    assert Task.objects.filter(version=1, priority=0).count() == 2_000
    last = verbs.present("07999")
    assert (last.when, last.biz_ext, last.priority, last.queue, last.status, last.version) == (
        NOW, {"n": 1}, 3, "default", TaskStatus.PENDING, 0,
    )  # fmt: skip


@pytest.mark.parametrize("once", [False, True])
def test_thousands_of_the_longest_numbers(db: None, once: bool) -> None:
    """Whatever the batch size is, no statement is larger than servers accept: these are 12 bytes a character."""
    nums = [f"{number:05}".ljust(NUM_LENGTH, "\U0001f600") for number in range(6000)]
    assert api.add_tasks((verbs.task(num, NOW) for num in nums), batch_size=10_000, once=once) == 6000
    assert set(Task.objects.values_list("biz_num", flat=True)) == set(nums)


def test_none(db: None) -> None:
    assert api.add_tasks([]) == api.add_tasks(iter(())) == 0


def test_expires_at_once(db: None, frozen: None) -> None:
    assert api.add_tasks([verbs.task("1", NOW, expires_at=timedelta())]) == 1
    api.add_task(verbs.task("2", NOW, expires_at=timedelta()))
    assert [verbs.present(number).expires_at for number in "12"] == [NOW, NOW]


def test_a_row_is_as_add_task_makes_it(db: None, frozen: None) -> None:
    fields: dict[str, Any] = {"biz_ext": {"a": 1}, "queue": "mail", "priority": -4}
    verbs.add("one", HOUR, **fields)
    api.add_tasks([verbs.task("many", HOUR, **fields)])
    one, other = (vars(verbs.present(num)) for num in ("one", "many"))
    differing = {name for name in one if one[name] != other[name]} - {"_state"}
    assert differing == {"id", "biz_num"}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 1000])
def test_of_one_identity_the_last_counts(db: None, batch_size: int) -> None:
    """They may be in one batch or in several."""
    tasks = [verbs.task(num, biz_ext=i) for i, num in enumerate("abab")]
    api.add_tasks(tasks, batch_size=batch_size)
    assert {num: ext for num, (_, ext) in versions().items()} == {"a": 2, "b": 3}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 1000])
def test_keeping_keeps_the_first(db: None, batch_size: int) -> None:
    verbs.add("there", biz_ext="old")
    tasks = [verbs.task(num, biz_ext=i) for i, num in enumerate(["there", "a", "b", "a", "there", "b"])]
    assert api.add_tasks(tasks, if_exists="keep", batch_size=batch_size) == 2
    assert versions() == {"there": (0, "old"), "a": (0, 1), "b": (0, 2)}


def test_replacing_what_waits_runs_or_failed(db: None, frozen: None) -> None:
    for num in ("failed", "running"):
        verbs.add(num)
    failed, running = sorted(verbs.claim(), key=str)
    verbs.settle(verbs.failed(failed))
    verbs.add("pending", 2 * HOUR)
    nums = ["pending", "running", "failed", "new"]
    assert api.add_tasks(verbs.task(num, HOUR, biz_ext="new") for num in nums) == 4
    assert versions() == {"pending": (1, "new"), "running": (1, None), "failed": (2, "new"), "new": (0, "new")}
    assert [verbs.present(num).status for num in nums] == [0, 1, 0, 0]
    verbs.settle(verbs.done(running))
    row = verbs.present("running")
    assert (row.status, row.when, row.biz_ext, row.attempts) == (TaskStatus.PENDING, NOW + HOUR, "new", 0)


def test_raising_writes_nothing_of_the_batch(db: None) -> None:
    verbs.add("there", biz_ext="old")
    with pytest.raises(TaskExists, match="'there'") as caught:
        api.add_tasks([verbs.task("a"), verbs.task("there"), verbs.task("z")], if_exists="raise")
    assert (caught.value.biz_code, caught.value.biz_num) == (CODE, "there")
    assert versions() == {"there": (0, "old")}
    assert api.add_tasks([verbs.task("a"), verbs.task("b")], if_exists="raise") == 2


def test_raising_for_one_identity_twice(db: None) -> None:
    with pytest.raises(TaskExists, match="'b'"):
        api.add_tasks([verbs.task(num) for num in "abcb"], if_exists="raise")
    assert versions() == {}


def test_in_the_callers_transaction(live_db: str) -> None:
    """All of it or nothing, over all batches."""
    with transaction.atomic():
        api.add_tasks(many(50), batch_size=10)
        with pytest.raises(TaskExists):
            api.add_tasks(many(1), if_exists="raise")
        transaction.set_rollback(True)
    assert Task.objects.count() == 0
    with transaction.atomic():
        assert api.add_tasks(many(50), batch_size=10) == 50
        assert api.add_tasks(many(60), batch_size=10, if_exists="keep") == 10
    assert Task.objects.count() == 60


def test_outside_a_transaction_each_batch_is_one(live_db: str) -> None:
    verbs.add("00025")
    with pytest.raises(TaskExists):
        api.add_tasks(many(50), batch_size=10, if_exists="raise")
    assert Task.objects.count() == 21


def test_it_is_due_at_once(db: None) -> None:
    api.add_tasks(verbs.task(str(i)) for i in range(10))
    assert len(verbs.claim()) == 10
