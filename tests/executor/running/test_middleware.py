"""Middlewares around runs: their order, what they may change, and both kinds of handlers."""

from typing import Any

import pytest

from django_delayed_tasks import TaskRun
from django_delayed_tasks.exceptions import InvalidSetting
from django_delayed_tasks.models import Success
from django_delayed_tasks.states import RunOutcome
from tests.executor.batches import batched
from tests.executor.middlewares import async_handler, events, outcome, plain_handler
from tests.executor.parts import add, drain, handler_of

pytestmark = pytest.mark.usefixtures("live_db")

kinds = pytest.mark.parametrize("kind", [plain_handler, async_handler])


@kinds
def test_in_order(use: Any, kind: Any) -> None:
    use("outer", "unused", "inner")
    kind()
    add("7")
    drain(threads=1)
    [handled] = [event for event in events if event.startswith("handle")]
    assert events == ["outer before 7", "inner before 7", handled, "inner after", "outer after"]
    assert outcome() == (RunOutcome.DONE, "")


@pytest.mark.parametrize(
    ("kind", "name"), [(plain_handler, "plain_only"), (plain_handler, "async_only"), (async_handler, "async_only")]
)
def test_an_async_one_is_called_around_both_kinds_of_handlers(use: Any, kind: Any, name: str) -> None:
    use("outer", name, "inner")
    kind()
    add("7")
    drain(threads=1)
    place = "event loop" if kind is async_handler else "worker-1"
    seen = "set by a middleware" if name == "plain_only" else "none"
    between = [name, "inner before 7", f"handle {seen} {place}", "inner after"]
    assert [event.replace("worker-0", "worker-1") for event in events] == ["outer before 7", *between, "outer after"]
    assert outcome() == (RunOutcome.DONE, "")


def test_no_executor_starts_with_a_plain_one_and_async_handlers(use: Any) -> None:
    use("outer", "plain_only")
    async_handler()
    with pytest.raises(InvalidSetting, match="plain_only: TypeError: it is for plain handlers only"):
        drain(threads=1)


@kinds
def test_it_may_answer_instead_of_the_handler(use: Any, kind: Any) -> None:
    use("instead")
    kind()
    add()
    drain()
    assert (events, outcome()) == ([], (RunOutcome.FAILED, "closed"))


def test_it_may_change_the_outcome(use: Any) -> None:
    use("with_result")
    plain_handler()
    add()
    drain()
    assert TaskRun.objects.get().result == "changed"


@kinds
def test_what_it_raises_ends_the_run(use: Any, kind: Any) -> None:
    use("outer", "raising")
    kind(max_attempts=1)
    add()
    drain()
    assert events == ["outer before 1", "outer after"]
    assert outcome() == (RunOutcome.FAILED, "ValueError: refused")


@pytest.mark.parametrize("raises", [False, True])
def test_what_it_writes_is_part_of_an_atomic_run(use: Any, raises: bool) -> None:
    def handle(task: Any) -> None:
        if raises:
            raise ValueError

    use("writing")
    handler_of(handle, atomic=True, max_attempts=1)
    add()
    drain()
    assert events == ["in a transaction: True"]
    assert Success.objects.filter(biz_code="middleware").count() == (0 if raises else 1)


def test_a_batch_is_one_call(use: Any) -> None:
    use("outer")
    batched(lambda tasks: events.append(f"{len(tasks)} tasks"))
    for number in "123":
        add(number)
    drain(threads=1)
    assert events == ["outer before 1", "3 tasks", "outer after"]
