"""One record for the end of each run, on the logger ``django_delayed_tasks.run``, once it is committed."""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import Done, Fail, Interval, Reschedule, Retry, Task, TaskRun, cancel_task, reschedule_task
from django_delayed_tasks.states import TaskStatus
from tests.executor.batches import batched
from tests.executor.parts import add, drain, executing, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = {"task_id", "biz_code", "biz_num", "attempt", "executor", "lateness", "duration"}
LOGGER = logging.getLogger("django_delayed_tasks.run")


class Records(logging.Handler):
    """Keeps the records, and what each of them found in the table."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[logging.LogRecord] = []
        self.statuses: list[TaskStatus | None] = []

    def emit(self, record: logging.LogRecord) -> None:
        row = Task.objects.first()
        self.statuses.append(TaskStatus(row.status) if row else None)
        self.all.append(record)

    @property
    def levels(self) -> list[str]:
        return [record.levelname for record in self.all]

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.all]


@pytest.fixture
def records() -> Iterator[Records]:
    kept = Records()
    LOGGER.addHandler(kept)
    yield kept
    LOGGER.removeHandler(kept)
    LOGGER.setLevel(logging.NOTSET)


def at_once(self: Any, attempt: int) -> timedelta:
    return timedelta()


def fail(task: Any) -> None:
    raise ValueError("no such order")


def single(handle: Callable[[Any], Any], **attributes: Any) -> None:
    handler_of(handle, **attributes)


def together(handle: Callable[[Any], Any], **attributes: Any) -> None:
    batched(lambda tasks: [handle(task) for task in tasks], **attributes)


ways = pytest.mark.parametrize("register", [single, together])
atomic_or_not = pytest.mark.parametrize("atomic", [False, True])


@ways
@atomic_or_not
def test_a_retry_is_a_warning_and_a_failure_an_error(register: Any, atomic: bool, records: Records) -> None:
    register(fail, atomic=atomic, max_attempts=2, backoff=at_once)
    task_id = add("A-1")
    drain()
    assert records.levels == ["WARNING", "ERROR"]
    assert records.messages == [
        "code A-1 failed, and is tried again in 0 s: ValueError: no such order",
        "code A-1 failed for good: ValueError: no such order",
    ]
    for attempt, record in enumerate(records.all, 1):
        assert record.exc_info
        assert isinstance(record.exc_info[1], ValueError)
        assert record.exc_info[2]
        given = {name: vars(record)[name] for name in KEYS}
        run = TaskRun.objects.get(attempt=attempt)
        assert run.started
        assert given == {
            "task_id": task_id, "biz_code": "code", "biz_num": "A-1", "attempt": attempt, "executor": run.executor,
            "lateness": (run.started - run.when).total_seconds(),
            "duration": (run.finished - run.started).total_seconds(),
        }  # fmt: skip


@atomic_or_not
def test_it_is_logged_once_it_is_committed(atomic: bool, records: Records) -> None:
    handler_of(lambda task: Fail("no"), atomic=atomic)
    add()
    drain()
    assert (records.levels, records.statuses) == (["ERROR"], [TaskStatus.FAILED])
    assert records.messages == ["code 1 failed for good: no"]
    assert not records.all[0].exc_info


SECRET: Any = {"token": "s3cret"}


@ways
@atomic_or_not
@pytest.mark.parametrize(
    "result", [Fail(SECRET), Retry(reason=SECRET), Retry(after=SECRET), Reschedule(SECRET), [Done(SECRET)]], ids=repr
)
def test_no_message_shows_what_is_redacted(
    register: Any, atomic: bool, result: Any, records: Records, settings: Any
) -> None:
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "REDACT": ["token"]}
    register(lambda task: result, max_attempts=1, atomic=atomic)
    add()
    drain()
    [record] = records.all
    shown = logging.Formatter().format(record) + repr(vars(record))
    shown += Task.objects.get().last_error + TaskRun.objects.get().error
    assert "'token': '********'" in shown
    assert "s3cret" not in shown


@ways
def test_a_wrong_result_has_its_error_and_no_value(register: Any, records: Records, settings: Any) -> None:
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "REDACT": ["token"]}
    register(lambda task: {"token": "s3cret"})
    add(biz_ext={"token": "s3cret"})
    drain()
    [record] = records.all
    assert not record.exc_info
    assert logging.Formatter().format(record).count("InvalidOutcome: ") == 1
    shown = logging.Formatter().format(record) + repr(vars(record))
    assert "did you mean Done(result=...)?" in shown
    assert "********" in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize(("attempts", "level"), [(1, "ERROR"), (2, "WARNING")])
def test_a_timeout(attempts: int, level: str, records: Records, caplog: pytest.LogCaptureFixture) -> None:
    go_on = Event()
    handler_of(lambda task: go_on.wait(60) and None, timeout=0.2, max_attempts=attempts)
    add()
    with executing() as executor:
        wait_until(lambda: records.all and not len(executor.held))
        go_on.set()
    assert records.levels == [level]
    assert "TaskTimeout: the run took longer than 0.2 s" in records.messages[0]
    assert logging.Formatter().format(records.all[0]).count("TaskTimeout: the run took longer") == 1
    assert vars(records.all[0])["duration"] >= 0.2
    assert [record.levelname for record in caplog.records if "is given up" in record.getMessage()] == ["WARNING"]


@pytest.mark.parametrize("reports", [True, False])
def test_each_task_of_a_batch_has_its_record(reports: bool, records: Records) -> None:
    """And so has a call that raised, after which each is run by itself."""

    def handle_batch(tasks: list[Any]) -> Any:
        if reports:
            return [ValueError(task.biz_num) for task in tasks]
        raise ValueError("all of them")

    batched(handle_batch, max_attempts=1)
    for num in "12":
        add(num)
    drain()
    errors = sorted(vars(record)["biz_num"] for record in records.all if record.levelno == logging.ERROR)
    assert errors == ["1", "2"]
    broken = [record for record in records.all if record.levelno == logging.WARNING]
    assert len(broken) == (0 if reports else 1)
    for record in broken:
        assert "a batch of 2 tasks such as 1 failed and is run one by one: ValueError: all" in record.getMessage()
        assert record.exc_info
        assert vars(record).keys() >= KEYS


@atomic_or_not
@pytest.mark.parametrize(
    ("says", "level", "logged"),
    [
        (True, logging.INFO, ["code 1 is done"]),
        (False, logging.INFO, []),
        (True, logging.WARNING, []),
        (False, logging.DEBUG, ["code 1 is done"]),
    ],
)
def test_what_is_done_is_logged_on_request(
    atomic: bool, says: bool, level: int, logged: list[str], records: Records
) -> None:
    LOGGER.setLevel(level)
    handler_of(lambda task: Done("x"), atomic=atomic, log=says)
    add()
    drain()
    assert records.messages == logged
    assert set(records.levels) <= {"INFO"}
    assert all(vars(record)["duration"] >= 0 for record in records.all)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (timedelta(hours=1), "code 1 is rescheduled by 1:00:00"),
        (None, "code 1 was not started: it expired at 2026"),
    ],
)
def test_other_ends(result: Any, message: str, records: Records) -> None:
    handler_of(lambda task: result, log=True, max_lateness=None)
    LOGGER.setLevel(logging.INFO)
    if result is None:
        add(when=timedelta(hours=-2))
        Task._base_manager.update(expires_at="2026-01-01T00:00Z")
    else:
        add()
    with executing():
        wait_until(lambda: records.all)
    [logged] = records.messages
    assert logged.startswith(message)


@pytest.mark.parametrize(
    ("meanwhile", "level", "what"),
    [
        (lambda: cancel_task("code", "1"), "WARNING", "failed, and was cancelled meanwhile"),
        (
            lambda: reschedule_task("code", "1", timedelta(hours=1)),
            "WARNING",
            "failed, and runs again as it was scheduled meanwhile",
        ),
    ],
)
def test_what_was_asked_meanwhile(meanwhile: Any, level: str, what: str, records: Records) -> None:
    def handle(task: Any) -> None:
        meanwhile()
        raise ValueError("no")

    handler_of(handle, max_attempts=1)
    add()
    drain()
    assert (records.levels, records.messages) == ([level], [f"code 1 {what}: ValueError: no"])


def test_a_time_of_a_recurring_task_that_failed_is_an_error(records: Records) -> None:
    handler_of(lambda task: Retry(reason="closed"), max_attempts=1)
    add(trigger=Interval(hours=1), when=timedelta())
    drain()
    assert (records.levels, records.messages) == (["ERROR"], ["code 1 failed for good this time; it recurs: closed"])


def test_a_slow_log_holds_no_settlement_up(records: Records) -> None:
    """Such as one that sends a mail to the admins."""
    go_on = Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            go_on.wait(60)

    slow = Slow()
    LOGGER.addHandler(slow)
    try:
        handler_of(lambda task: Fail("no"))
        for number in range(3):
            add(str(number))
        with executing():
            wait_until(lambda: Task.objects.filter(status=TaskStatus.FAILED).count() == 3)
            go_on.set()
    finally:
        go_on.set()
        LOGGER.removeHandler(slow)
    assert records.levels == ["ERROR"] * 3


@atomic_or_not
@pytest.mark.parametrize("error", [RuntimeError("filter"), SystemExit(3)])
def test_a_log_that_raises_changes_nothing(atomic: bool, error: BaseException, records: Records) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise error

    LOGGER.addFilter(refuse)
    try:
        handler_of(lambda task: Fail("no"), atomic=atomic)
        for num in "12":
            add(num)
        drain()
    finally:
        LOGGER.removeFilter(refuse)
    assert [task.status for task in Task.objects.all()] == [TaskStatus.FAILED] * 2
