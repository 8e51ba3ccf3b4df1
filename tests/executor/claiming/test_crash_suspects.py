"""Tasks that were running when executors died do not run at the same time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.admission import PAUSE, SUSPECT
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.settling.settlement import Settlement, released
from tests.executor.parts import Bench, add, claim, executing, handler_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def handler() -> Any:
    return handler_of(lambda task: None)


def add_rescued(*nums: str, rescues: int = SUSPECT) -> None:
    for num in nums:
        add(num)
    Task._base_manager.filter(biz_num__in=nums).update(rescues=rescues)


def pauses() -> list[timedelta]:
    """The seconds after which the tasks that were released one after the other become claimable, after the first."""
    moments = sorted(Task.objects.filter(status=TaskStatus.PENDING).values_list("claim_at", flat=True))
    return [moment - moments[0] for moment in moments]


def test_one_is_run_along_with_all_others(bench: Bench) -> None:
    add("fresh")
    add_rescued("a", "b", "c")
    with clock.frozen_at(clock.host_now() + timedelta(seconds=1)):
        bench.poller.poll()
    assert bench.numbers == ["fresh", "a"]
    assert pauses() == [timedelta(), PAUSE]
    assert Task.objects.filter(claim_at__gte=F("when") + PAUSE).count() == 2


def test_none_while_one_is_held(bench: Bench) -> None:
    add_rescued("a")
    bench.poller.poll()
    add_rescued("b")
    add("fresh")
    bench.poller.poll()
    assert bench.numbers == ["a", "fresh"]
    assert bench.released == []
    assert Task.objects.get(biz_num="b").version == 0, "it was there for a moment"


def test_the_next_when_that_one_has_ended(bench: Bench) -> None:
    add_rescued("a")
    bench.poller.poll()
    bench.finish(bench.delivered)
    add_rescued("b")
    bench.poller.poll()
    assert bench.numbers == ["a", "b"]


def test_nor_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspect that hangs keeps the others from being claimed here for ten seconds, and no longer."""
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    add_rescued("a")
    bench.poller.poll()
    add_rescued("b")
    for seconds, numbers in ((9.0, ["a"]), (11.0, ["a", "b"])):
        monkeypatch.setattr(clock, "monotonic", lambda: now + seconds)  # noqa: B023
        bench.lease.renew()
        bench.poller.poll()
        assert bench.numbers == numbers


def test_after_the_first_rescue_all_continue_at_once(bench: Bench) -> None:
    add_rescued("a", "b", "c", rescues=SUSPECT - 1)
    bench.poller.poll()
    assert bench.numbers == ["a", "b", "c"]
    assert bench.released == []


@pytest.mark.parametrize(("rescues", "started"), [(0, ["a", "b"]), (1, ["a"])])
def test_the_last_rescue_makes_one(make_bench: Any, rescues: int, started: list[str]) -> None:
    bench = make_bench(max_rescues=1)
    add_rescued("a", "b", rescues=rescues)
    bench.poller.poll()
    assert bench.numbers == started


def test_where_none_is_allowed_fresh_ones_are_none(make_bench: Any) -> None:
    """MAX_RESCUES was lowered to 0; one that was rescued before is run alone still."""
    bench = make_bench(max_rescues=0)
    add("fresh")
    add_rescued("a", "b", rescues=1)
    add("fresh too")
    bench.poller.poll()
    assert bench.numbers == ["fresh", "a", "fresh too"]
    add("later")
    bench.poller.poll()
    assert bench.numbers == ["fresh", "a", "fresh too", "later"]


def test_a_drain_leaves_none_behind(make_bench: Any) -> None:
    bench = make_bench(drain=True)
    add_rescued("a", "b", "c")
    bench.poller.poll()
    assert bench.numbers == ["a", "b", "c"]


def test_the_others_are_released_before_one_begins(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it kills its process at once, they are not there any more."""
    add_rescued("a", "b", "c")
    queued: list[int] = []
    usual = bench.held.release_now

    def release(settlements: list[Settlement]) -> None:
        usual(settlements)
        queued.append(len(bench.queue))

    monkeypatch.setattr(bench.held, "release_now", release)
    bench.poller.poll()
    assert queued == [0]
    assert set(Task.objects.filter(status=TaskStatus.PENDING).values_list("biz_num", flat=True)) == {"b", "c"}
    assert bench.numbers == ["a"]


def test_none_begins_while_the_others_cannot_be_released(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    add_rescued("a", "b", "c")

    def fail(settlements: Any) -> None:
        raise OperationalError("gone away")

    monkeypatch.setattr(bench.held, "release_now", fail)
    with pytest.raises(OperationalError):
        bench.poller.poll()
    assert bench.numbers == []
    assert len(bench.released) == 3
    assert len(bench.held) == 0


def test_released_when_it_returns(transactional_db: None) -> None:
    with executing(poll_interval=60.0) as executor:
        executor._polling.stop()
        add_rescued("a", "b")
        tasks = claim(executor.lease.executor or 0)
        executor.held.add(tasks)
        executor.held.release_now([released(task) for task in tasks])
        assert not Task.objects.exclude(status=TaskStatus.PENDING).exists()
        assert len(executor.held) == 0
