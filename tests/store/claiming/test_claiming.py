"""What a claim takes, in which order, and what it gives: the same by every strategy."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connections

from django_delayed_tasks import api, clock
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.affinity import OTHERS, OWN, Affinity, share, share_of
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import Strategy
from django_delayed_tasks.store.sql.dialects import dialect_of
from tests.store import verbs
from tests.store.verbs import ALIAS, EXECUTOR, HOUR, NOW


def nums(strategy: Strategy, **request: object) -> list[str]:
    return [run.biz_num for run in verbs.claim(strategy, **request)]  # type: ignore[arg-type]


def test_what_a_run_sees(db: None, frozen: None, strategy: Strategy) -> None:
    result = verbs.add("7", NOW - HOUR, biz_ext={"a": [1, None]}, queue="mail", priority=-3)
    [run] = verbs.claim(strategy, queue="mail", priority=-3)
    assert (run.id, run.version, run.claim) == (result.task_id, 1, (result.task_id, 1, EXECUTOR))
    assert (run.biz_code, run.biz_num, run.when, run.biz_ext) == ("test", "7", NOW - HOUR, {"a": [1, None]})
    assert (run.queue, run.priority, run.attempts, run.rescues, run.alias) == ("mail", -3, 1, 0, "default")
    assert str(run) == "test 7"


def test_what_the_row_says(db: None, frozen: None, strategy: Strategy) -> None:
    verbs.add()
    verbs.claim(strategy)
    row = verbs.present()
    assert (row.status, row.version, row.attempts, row.executor) == (TaskStatus.RUNNING, 1, 1, EXECUTOR)
    assert row.when == row.claim_at == row.create_time == row.update_time == NOW


def test_a_claim_is_a_change(db: None, frozen: None, strategy: Strategy) -> None:
    """``update_time`` tells when the row last changed."""
    verbs.add()
    with clock.frozen_at(NOW + HOUR):
        verbs.claim(strategy)
    row = verbs.present()
    assert (row.create_time, row.update_time) == (NOW, NOW + HOUR)


WAITING: dict[str, Callable[[], object]] = {
    "added": verbs.add,
    "added in bulk": lambda: api.add_tasks([verbs.task()]),
    "released": lambda: [verbs.add(), verbs.settle(verbs.released(verbs.claim_one()))],
}


@pytest.mark.parametrize("way", WAITING)
def test_a_row_does_not_grow_with_its_claim(db: None, strategy: Strategy, way: str) -> None:
    """Nothing that it changes was NULL, which takes no room: InnoDB would have to split a page that is full."""
    WAITING[way]()
    before = vars(verbs.present())
    verbs.claim(strategy)
    after = vars(verbs.present())
    changed = {name for name in before if before[name] != after[name]} - {"_state"}
    assert "executor" in changed
    assert [name for name in changed if before[name] is None] == []


def test_every_claim_is_newer(db: None, frozen: None, strategy: Strategy) -> None:
    verbs.add()
    for attempt in (1, 2, 3):
        [run] = verbs.claim(strategy)
        assert (run.version, run.attempts) == (attempt, attempt)
        verbs.settle(verbs.retry(run, timedelta()))


def test_only_of_one_code_among_the_first(db: None, frozen: None, strategy: Strategy) -> None:
    """No more rows are looked at than are asked for."""
    for number, code in enumerate(("one", "other", "one", "other", "one")):
        api.add_task(Task(biz_code=code, biz_num=str(number)))
    assert nums(strategy, limit=4, only="one") == ["0", "2"]
    assert nums(strategy, limit=4) == ["1", "3", "4"]


def test_only_what_was_rescued_less_often(db: None, frozen: None, strategy: Strategy) -> None:
    for rescues in (2, 0, 3, 1):
        verbs.add(str(rescues))
        Task._base_manager.filter(biz_num=str(rescues)).update(rescues=rescues)
    assert nums(strategy, rescues_below=2) == ["0", "1"]
    assert nums(strategy) == ["2", "3"]


def test_due_means_now_or_before(db: None, frozen: None, strategy: Strategy) -> None:
    microsecond = timedelta(microseconds=1)
    verbs.add("before", NOW - microsecond)
    verbs.add("now", NOW)
    verbs.add("after", NOW + microsecond)
    assert nums(strategy) == ["before", "now"]
    with clock.frozen_at(NOW + microsecond):
        assert nums(strategy) == ["after"]


def test_the_database_clock_decides(db: None, strategy: Strategy) -> None:
    verbs.add("past", timedelta(seconds=-1))
    verbs.add("now")
    verbs.add("future", timedelta(seconds=60))
    assert nums(strategy) == ["past", "now"]


def test_order(db: None, frozen: None, strategy: Strategy) -> None:
    """The order is that of ``claim_at``, then of age: a task that was due long before it was added has to wait."""
    with clock.frozen_at(NOW - HOUR):
        verbs.add("second", NOW - HOUR)
        verbs.add("third", NOW - HOUR / 2)
        verbs.add("first", NOW - 9 * HOUR)
        verbs.add("second", NOW - HOUR / 2)
    verbs.add("last", NOW - 9 * HOUR)
    assert nums(strategy) == ["first", "second", "third", "last"]


def test_limit(db: None, frozen: None, strategy: Strategy) -> None:
    api.add_tasks([verbs.task(f"{i:02}", NOW - HOUR + timedelta(seconds=i)) for i in range(10)])
    with clock.frozen_at(NOW + HOUR):
        assert nums(strategy, limit=4) == ["00", "01", "02", "03"]
        assert nums(strategy, limit=4) == ["04", "05", "06", "07"]
        assert nums(strategy, limit=4) == ["08", "09"]
        assert nums(strategy, limit=4) == []


def test_one_level_at_a_time(db: None, frozen: None, strategy: Strategy) -> None:
    for queue in ("default", "mail", "Mail"):
        for priority in (-1, 0, 1):
            verbs.add(f"{queue}{priority}", queue=queue, priority=priority)
    assert nums(strategy, queue="mail", priority=1) == ["mail1"]
    assert nums(strategy, queue="default", priority=-1) == ["default-1"]
    assert nums(strategy, queue="default", priority=2) == []


def test_watermark(db: None, frozen: None, strategy: Strategy) -> None:
    """A claim does not find what became claimable before the watermark."""
    with clock.frozen_at(NOW - HOUR):
        verbs.add("old")
    verbs.add("new")
    assert nums(strategy, watermark=NOW - HOUR / 2) == ["new"]
    assert nums(strategy, watermark=NOW - HOUR) == ["old"]


def test_excluded_codes(db: None, frozen: None, strategy: Strategy) -> None:
    for code in ("a", "b", "c"):
        verbs.add(code, biz_code=code)
    assert nums(strategy, excluded=frozenset({"a", "c", "it's"})) == ["b"]
    assert nums(strategy) == ["a", "c"]


def test_nothing_is_due(db: None, frozen: None, strategy: Strategy) -> None:
    verbs.add(when=HOUR)
    assert nums(strategy) == []
    assert verbs.present().version == 0


def test_affinity_shares_what_there_is(db: None, frozen: None) -> None:
    """Two executors that look at the same rows take different ones, and leave none behind."""
    api.add_tasks([verbs.task(str(i)) for i in range(40)])
    first = verbs.claim(executor=1, limit=5, place=0, executors=2)
    second = verbs.claim(executor=2, limit=5, place=1, executors=2)
    assert {share_of(run.id, 2) for run in first} == {0}
    assert {share_of(run.id, 2) for run in second} == {1}
    rest = [run for _ in range(20) for run in verbs.claim(executor=1, limit=5, place=0, executors=2)]
    assert len(first) + len(second) + len(rest) == 40


@pytest.mark.parametrize("executors", [2, 3, 7])
@pytest.mark.parametrize("multiplier", [OWN, *OTHERS])
def test_the_database_computes_the_same_share(db: None, executors: int, multiplier: int) -> None:
    ids = [1, 2, 3, 4, 65_535, 65_536, 65_537, 2**31, 2**40 + 7, 2**63 - 1]
    requests = [ClaimRequest(1, "default", 0, 1, place=place, executors=executors) for place in range(executors)]
    with connections[ALIAS].cursor() as cursor:
        for task_id in ids:
            cases = [f"CASE WHEN {share(one, multiplier, str(task_id))} THEN 1 ELSE 0 END" for one in requests]
            cursor.execute(f"SELECT %s, {', '.join(cases)}", ["shares"])
            assert cursor.fetchone()[1:].index(1) == share_of(task_id, executors, multiplier)


def test_what_is_left_behind_is_taken_whosever_it_is(db: None, frozen: None) -> None:
    """The other executor may have all its threads busy for hours: its share must not wait behind all of mine."""
    api.add_tasks([verbs.task(str(i)) for i in range(40)])
    theirs = {task.id for task in Task.objects.all() if share_of(task.id, 2) == 1}
    Task._base_manager.filter(id__in=theirs).update(claim_at=NOW - HOUR)
    request = ClaimRequest(1, "default", 0, 4, place=0, executors=2)
    mine = compare_and_set.read_candidates(Affinity(ALIAS, dialect_of(connections[ALIAS]), request))
    assert not theirs & {run.id for run in mine}
    knowing = replace(request, watermark=NOW - HOUR - timedelta(seconds=5))
    assert {run.id for run in compare_and_set.claim(ALIAS, knowing)} <= theirs
