"""Options of functions: where they are given, and that executors follow them."""

import pickle
from datetime import timedelta
from threading import Barrier
from typing import Any

import django
import pytest

from django_delayed_tasks import Cron, Interval, clock, task_options
from django_delayed_tasks.backends.tasks import DelayedTasksBackend
from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.function_tasks.handler import registered as registered_handler
from django_delayed_tasks.function_tasks.options import options_of
from django_delayed_tasks.handlers import find, find_function, registry
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.settling.settlement import LOOK_AGAIN
from django_delayed_tasks.store.sql.lanes import open_lane
from tests.executor.limits.parts import LanesBench
from tests.executor.parts import claim, drain, executing, registered
from tests.function_tasks import functions
from tests.function_tasks.framework import InvalidTask, TaskResultDoesNotExist, default_task_backend, task
from tests.threads import start_thread
from tests.waiting import wait_until

serve: Any = functions.serve
HOUR = timedelta(hours=1)
BACKEND = f"{DelayedTasksBackend.__module__}.{DelayedTasksBackend.__qualname__}"


def to_be_decorated(context: Any, number: int) -> int:
    return number


def handler_of(decorated: Any) -> Any:
    return find(decorated.module_path)


def test_decorated_above_and_below() -> None:
    assert handler_of(functions.fail_until).max_attempts == 3
    assert handler_of(functions.write_then_fail).atomic
    assert handler_of(functions.nightly).trigger == Cron("0 3 * * *")
    assert handler_of(functions.fail).max_attempts == 1


def test_the_places_outrank_each_other() -> None:
    given = {"max_attempts": 2, "timeout": 5, "functions": {functions.fail_until.module_path: {"timeout": 7}}}
    assert options_of(functions.fail, given).max_attempts == 2
    assert options_of(functions.fail, given).timeout == 5
    chosen = options_of(functions.fail_until, given)
    assert (chosen.max_attempts, chosen.timeout) == (3, 7)


@pytest.mark.skipif(django.VERSION[:2] == (6, 0), reason="its @task passes no further arguments on")
def test_arguments_of_the_decorator() -> None:
    with_more: Any = task
    decorate = with_more(takes_context=True, max_attempts=4, timeout=60, rate="5/m", max_concurrent=2, atomic=True)
    decorated = decorate(to_be_decorated)
    handler = handler_of(decorated)
    assert (handler.max_attempts, handler.timeout, handler.rate, handler.max_concurrent) == (4, 60, "5/m", 2)
    assert handler.atomic
    with pytest.raises(TypeError):
        with_more(unknown=1)(functions.plain)


@pytest.mark.skipif(django.VERSION[:2] == (6, 0), reason="its @task passes no further arguments on")
def test_what_a_function_says_of_expiring_is_not_for_a_trigger(db: None) -> None:
    with_more: Any = task
    of_both: list[Any] = [with_more(takes_context=True, expires=HOUR)(to_be_decorated), functions.soon]
    for one in of_both:
        trigger = Interval(minutes=30)
        one.using(biz_num="recurs", trigger=trigger).enqueue()
        one.using(biz_num="recurs for a day", trigger=trigger, expires=24 * HOUR).enqueue()
        one.using(biz_num="once").enqueue()
        one.using(biz_num="expires at once", expires=timedelta()).enqueue()
        rows = Task.objects.filter(biz_code=one.module_path)
        hours = {row.biz_num: row.expires_at and round((row.expires_at - clock.host_now()) / HOUR) for row in rows}
        assert hours == {"recurs": None, "recurs for a day": 24, "once": 1, "expires at once": 0}


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"max_attempts": 0}, "max_attempts=0: expected an int of at least 1"),
        ({"rate": "often"}, "rate='often'"),
        ({"backoff": lambda attempt: 5}, r"expected a function to be called with \(exception, task_result\)"),
        ({"backoff": 5}, "backoff=5: expected a function"),
    ],
)
def test_options_that_are_not_valid(option: dict[str, Any], problem: str) -> None:
    decorate = task_options(**option)
    with pytest.raises(InvalidTask, match=problem):
        task(decorate(lambda_like()))


def lambda_like() -> Any:
    """A function that is at the level of its module, as a task's must be, and has no options yet."""
    namespace: dict[str, Any] = {"__name__": __name__}
    exec("def made(): ...", namespace)
    return namespace["made"]


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown option 'max_attemps': did you mean max_attempts"):
        task_options(max_attemps=3)


def test_options_in_settings_that_do_not_exist(settings: Any) -> None:
    options = {"max_attemps": 3, "functions": {"shop.tasks.send": {"timeuot": 1}}}
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": options}}
    backend: Any = default_task_backend
    messages = [message.msg for message in backend.check() if message.id == "django_delayed_tasks.E024"]
    assert [message.partition(":")[0] for message in messages] == ["TASKS['default']['OPTIONS']"] * 2
    assert "unknown option 'max_attemps': did you mean max_attempts?" in messages[0]
    assert "functions['shop.tasks.send']: unknown option 'timeuot'" in messages[1]


@pytest.mark.parametrize(
    ("name", "meant"), [("max_retries", "max_attempts"), ("rate_limit", "rate"), ("autoretry_for", "backoff")]
)
def test_the_options_of_celery(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=rf"unknown option '{name}': did you mean {meant}\?"):
        task_options(**{name: 3})


def test_options_in_settings_that_are_of_no_function(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is misspelled would leave the function without its limits."""
    path = functions.fail.module_path
    old = f"{__name__}.fail"
    monkeypatch.setattr(f"{__name__}.fail", functions.fail, raising=False)  # as after a move
    options: Any = {"functions": {path: {"timeout": 1}, f"{path}ed": {"timeout": 1}, "shop.tasks.nothing": {}, old: {}}}
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": options}}
    backend: Any = default_task_backend
    messages = [message.msg for message in backend.check() if message.id == "django_delayed_tasks.W024"]
    where = "TASKS['default']['OPTIONS']['functions']"
    assert messages == [
        f"{where}: '{path}ed' cannot be imported.",
        f"{where}: 'shop.tasks.nothing' cannot be imported.",
        f"{where}: '{old}' is imported from elsewhere: its options are those of '{path}'.",
    ]


@pytest.mark.parametrize("functions", [["shop.tasks.send"], {"shop.tasks.send": 3}, "shop.tasks.send"])
def test_options_in_settings_of_another_form(settings: Any, functions: Any) -> None:
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": {"functions": functions}}}
    backend: Any = default_task_backend
    [message] = [message for message in backend.check() if message.id == "django_delayed_tasks.E024"]
    assert "expected a dict of dicts of options" in message.msg


def test_settings_that_change_are_followed(settings: Any) -> None:
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"max_attempts": 8}}}
    functions.fail.get_backend().validate_task(functions.fail)
    assert handler_of(functions.fail).max_attempts == 8


def test_threads_that_register_a_function_at_the_same_time() -> None:
    known = handler_of(functions.fail)
    registry.withdraw(known)
    found: list[Any] = []
    arrived = Barrier(4)

    def register() -> None:
        arrived.wait(10)
        found.append(registered_handler(functions.fail, {}))

    threads = [start_thread(register) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert {id(handler) for handler in found} == {id(handler_of(functions.fail))}


def test_results_are_kept_as_long_as_the_option_says(settings: Any) -> None:
    options = {"result_retention": timedelta(days=30)}
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}
    functions.fail.using(priority=1)
    assert handler_of(functions.fail).history_period == timedelta(days=30)


def test_a_task_can_be_pickled() -> None:
    if django.VERSION >= (6, 1):
        chosen: Any = serve.using(priority=5, biz_num="a")
        assert pickle.loads(pickle.dumps(chosen)) == chosen


@pytest.mark.django_db(transaction=True)
def test_a_limit_by_key() -> None:
    handler = handler_of(serve)
    assert handler.is_keyed
    for customer in "aab":
        serve.enqueue(customer, note="x")
    claimed = claim(registered(), lane=open_lane(handler.biz_code))
    assert [handler.concurrency_key(one) for one in claimed] == ["a", "a", "b"]


@pytest.mark.django_db(transaction=True)
def test_limited_functions_are_written_to_their_lane() -> None:
    """Elsewhere an executor would claim each of them, only to move it there."""
    backend: Any = default_task_backend
    serve.enqueue("a")
    backend.bulk_enqueue([(serve, ("b",), {}), (functions.add_up, (1,), {})])
    lanes = sorted(Task.objects.values_list("biz_code", "lane"))
    code = handler_of(serve).biz_code
    assert lanes == [(functions.add_up.module_path, ""), (code, open_lane(code)), (code, open_lane(code))]


@pytest.mark.django_db(transaction=True)
def test_a_limit_is_kept() -> None:
    for customer in "aab":
        serve.enqueue(customer)
    drain()
    assert sorted(functions.calls) == [("a", ""), ("a", ""), ("b", "")]


@pytest.mark.django_db(transaction=True)
def test_a_periodic_function_has_its_task() -> None:
    with executing():
        wait_until(lambda: Task.objects.filter(biz_code=functions.nightly.module_path).exists())
    Task._base_manager.update(claim_at="2026-01-01T02:00Z", when="2026-01-01T02:00Z")
    drain()
    assert functions.calls == ["nightly"]


@pytest.mark.django_db(transaction=True)
def test_an_executor_imports_the_module_of_a_function_that_it_does_not_know() -> None:
    result: Any = functions.give.enqueue(1)
    give: Any = functions.give
    other = give.using(backend="strict", run_after=timedelta(0)).enqueue(2)
    registry.clear()
    drain()
    assert functions.give.get_result(result.id).return_value == 1
    found = functions.give.get_result(other.id)
    assert (found.return_value, found.backend, found.task.backend) == (2, "strict", "strict")


@pytest.mark.django_db(transaction=True)
def test_a_function_that_is_gone(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    result: Any = functions.give.enqueue(1)
    registry.clear()
    monkeypatch.delattr(functions, "give")
    drain()
    assert "this function cannot be used here: ImportError" in caplog.text
    with pytest.raises(TaskResultDoesNotExist, match="is no task function here"):
        default_task_backend.get_result(result.id)


@pytest.mark.django_db(transaction=True)
def test_a_limited_function_that_could_not_be_imported_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute, as other unknown codes are: the cause may have passed."""
    now, looks = clock.monotonic(), iter([None, find_function])
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    monkeypatch.setattr(lanes, "find_function", lambda task: (look := next(looks)) and look(task))
    serve.enqueue("a")
    registry.clear()
    bench = LanesBench()
    try:
        for _ in range(3):
            bench.turn()
        assert bench.numbers == []
        now += LOOK_AGAIN
        monkeypatch.setattr(bench.lease, "claims_until", now + 1)
        bench.turn()
        assert len(bench.numbers) == 1
    finally:
        bench.lease.end()
