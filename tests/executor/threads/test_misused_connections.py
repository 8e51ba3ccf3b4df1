"""A worker thread is clean after a run, whatever the run did to its connections: the next run is as in a new thread."""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.transaction import TransactionManagementError
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from django_delayed_tasks import signals
from django_delayed_tasks.executor.threads.kept_threads import KeptThreads
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.dialects import dialect_of
from harness.torture.misuse import MISUSES, kept, misuse
from tests.executor.atomic_runs import effects, write
from tests.executor.batches import batched
from tests.executor.parts import add, handler_of
from tests.executor.threads.one_worker import OneWorker, fresh, one_worker
from tests.threads import in_thread

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.per_database,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of what is kept, at the end
]

ALIASES = ("default", "other")
Names = list[tuple[str, str]]
NAMES = st.lists(st.tuples(st.sampled_from(sorted(MISUSES)), st.sampled_from(ALIASES)), min_size=1, max_size=4)


@pytest.fixture(autouse=True)
def _other(live_db: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second database."""
    entry = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "other"}
    monkeypatch.setitem(connections.settings, "other", entry | {"OPTIONS": {}})
    ensure: Any = BaseDatabaseWrapper.ensure_connection  # in a test it refuses databases that come later
    monkeypatch.setattr(
        BaseDatabaseWrapper, "ensure_connection", getclosurevars(ensure).nonlocals["real_ensure_connection"]
    )


@pytest.fixture
def worker() -> Iterator[OneWorker]:
    with one_worker() as worker:
        yield worker


def look_as_new() -> list[dict[str, Any]]:
    with kept_connections.of_thread("default"):
        return [fresh(alias) for alias in ALIASES]


class Handlers:
    """One that misuses its connections, as each test says, and innocent ones that run after it in the same thread."""

    def __init__(self) -> None:
        self.misuses: Names = []
        self.error: BaseException | None = None
        self.found: list[dict[str, Any]] = []
        self.in_new_thread = in_thread(look_as_new)

    def register(self, is_atomic: bool) -> None:
        handler_of(self.misuse, code="misuse", atomic=is_atomic, max_attempts=1)
        batched(self.misuse, code="misuse-batch", atomic=is_atomic, max_attempts=1)
        handler_of(self.look, code="plain", max_attempts=1)
        handler_of(lambda task: write(f"atomic {task.biz_num}"), code="atomic", atomic=True, max_attempts=1)

    def misuse(self, tasks: Any) -> None:
        write("effect")
        misuse(self.misuses)
        if self.error:
            raise self.error

    def look(self, task: Any) -> None:
        write(f"plain {task.biz_num}")
        self.found += [fresh(alias) for alias in ALIASES]


@contextmanager
def each_connection_received_by(receive: Callable[..., None]) -> Iterator[None]:
    connection_created.connect(receive)
    try:
        yield
    finally:
        connection_created.disconnect(receive)


def test_wrappers_that_a_project_puts_around_each_connection_cost_no_reconnection() -> None:
    """Such as those of a tracer, which a receiver of ``connection_created`` adds, before a worker's first run."""
    numbers: list[int] = []

    def trace(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        return execute(sql, params, many, context)

    def wrap(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(trace)

    def handle(task: Any) -> None:
        Task.objects.exists()
        numbers.append(id(connections["default"].connection))
        assert trace in connections["default"].execute_wrappers

    handler_of(handle, max_attempts=1)
    with each_connection_received_by(wrap), one_worker() as worker:
        for number in range(4):
            add(str(number))
            worker.run()
    assert len(set(numbers)) == 1
    assert outcomes("code") == [RunOutcome.DONE] * 4


def outcomes(code: str) -> list[RunOutcome]:
    return [RunOutcome(run.outcome) for run in TaskRun.objects.filter(biz_code=code).order_by("id")]


def check_innocent(worker: OneWorker, handlers: Handlers, number: int, code: str) -> None:
    """The next runs in this thread, of which one of this code comes first, are as in a new one."""
    for each in (code, "plain" if code == "atomic" else "atomic"):
        add(f"{number}", code=each)
        worker.run()
        assert outcomes(each)[-1:] == [RunOutcome.DONE], TaskRun.objects.filter(biz_code=each).order_by("id")[0].error
        assert f"{each} {number}" in effects()
    assert handlers.found[-2:] == handlers.in_new_thread


@pytest.mark.parametrize("error", [ValueError, SystemExit])
@pytest.mark.parametrize("next_one", ["plain", "atomic"])
def test_nor_does_an_error_hide_the_wrapper_that_a_run_leaves(
    worker: OneWorker, next_one: str, error: type[BaseException]
) -> None:
    """After an error, a connection is asked whether it still works: not through such a wrapper."""
    handlers = Handlers()
    handlers.register(is_atomic=False)
    losses = kept_connections.losses

    def fail_and_leave(task: Any) -> None:
        with suppress(DatabaseError), connections["default"].cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        connections["default"].execute_wrappers.append(raiser(error))

    handler_of(fail_and_leave, code="fails", max_attempts=1)
    add(code="fails")
    worker.run()
    check_innocent(worker, handlers, 1, next_one)
    assert kept_connections.losses == losses


def test_one_to_another_database_need_not_write(worker: OneWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one to a replica: an error of a handler is no reason to give it up."""
    sessions: list[Any] = []

    def handle(task: Any) -> None:
        with suppress(DatabaseError), connections[task.biz_num].cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        sessions.append(connections[task.biz_num].connection)

    monkeypatch.setattr(type(dialect_of(connections["default"])), "accepts_writes", lambda dialect: False)
    handler_of(handle, max_attempts=1)
    for alias in ALIASES:
        for _ in range(2):
            add(alias)
            worker.run()
    assert sessions[0] is not sessions[1]
    assert sessions[2] is sessions[3]


def raiser(error: type[BaseException]) -> Callable[..., None]:
    def fail(*_: Any) -> None:
        raise error("wrapper")

    return fail


@pytest.mark.parametrize("next_one", ["plain", "atomic"])
@pytest.mark.parametrize("is_atomic", [False, True], ids=["plain", "atomic"])
def test_whatever_a_run_did_the_next_is_as_in_a_new_thread(worker: OneWorker, is_atomic: bool, next_one: str) -> None:
    handlers = Handlers()
    handlers.register(is_atomic)
    numbers = iter(range(1000))

    @settings(max_examples=25, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
    @given(names=NAMES, count=st.sampled_from([1, 1, 2]), fails=st.booleans())
    def check(names: Names, count: int, fails: bool) -> None:
        number = next(numbers)
        handlers.misuses, handlers.error = names, ValueError("no") if fails else None
        code = "misuse" if count == 1 else "misuse-batch"
        before = effects().count("effect")
        runs = len(outcomes(code))
        for one in range(count):
            add(f"{number}-{one}", code=code)
        worker.run(count)
        new = outcomes(code)[runs:]
        assert len(new) == count, "each attempt is counted"
        assert set(new) <= {RunOutcome.DONE, RunOutcome.FAILED}
        if fails:
            assert set(new) == {RunOutcome.FAILED}
        if is_atomic:
            calls = effects().count("effect") - before
            assert calls == (new.count(RunOutcome.DONE) and 1)
        check_innocent(worker, handlers, number, next_one)

    check()


def test_nor_does_it_matter_what_a_coroutine_did_in_the_thread_for_queries() -> None:
    threads, in_new_thread = KeptThreads("queries", "default", 1), in_thread(look_as_new)
    numbers = iter(range(1000))

    def look(number: int) -> list[dict[str, Any]]:
        write(f"{number}")
        return [fresh(alias) for alias in ALIASES]

    @settings(max_examples=25, phases=[Phase.generate])
    @given(names=NAMES)
    def check(names: Names) -> None:
        number = next(numbers)
        with suppress(TransactionManagementError):
            threads.submit(misuse, names).result(60)
        assert threads.submit(look, number).result(60) == in_new_thread
        assert f"{number}" in effects()

    try:
        check()
    finally:
        threads.finish(60)
        kept.clear()


WAYS = ["generator", "enter", "enter without savepoint", "close", "set_rollback", "close driver"]


@pytest.mark.parametrize("way", WAYS)
def test_an_atomic_run_whose_transaction_is_not_committed_is_a_failed_attempt(worker: OneWorker, way: str) -> None:
    handlers = Handlers()
    handlers.register(is_atomic=True)
    handlers.misuses = [(way, "default")]
    add("1", code="misuse")
    worker.run()
    assert outcomes("misuse") == [RunOutcome.FAILED]
    assert effects() == []
    assert "TransactionManagementError" in TaskRun.objects.get().error or way == "close driver"


@pytest.mark.parametrize("way", ["generator", "enter", "autocommit off"])
@pytest.mark.parametrize(
    ("kind", "alias"), [("plain", "default"), ("plain", "other"), ("batch", "default"), ("atomic", "other")]
)
def test_a_run_that_leaves_a_transaction_open_is_a_failed_attempt(
    worker: OneWorker, way: str, alias: str, kind: str
) -> None:
    """It has lost what it wrote there: an atomic one on another database than its own."""

    def leave(*_: Any) -> None:
        misuse([(way, alias)])

    if kind == "batch":
        batched(leave, code="leaves", max_attempts=1)
    else:
        handler_of(leave, code="leaves", atomic=kind == "atomic", max_attempts=1)
    add(code="leaves")
    worker.run()
    assert outcomes("leaves") == [RunOutcome.FAILED]
    assert f"left a transaction open on '{alias}': what it wrote there is rolled back" in TaskRun.objects.get().error


@pytest.mark.parametrize("way", ["close", "wrapper", "capturing", "close driver", "bad hook"])
@pytest.mark.parametrize("alias", ALIASES)
def test_a_run_that_leaves_no_transaction_is_done(worker: OneWorker, way: str, alias: str) -> None:
    handler_of(lambda task: misuse([(way, alias)]), max_attempts=1)
    add()
    worker.run()
    assert outcomes("code") == [RunOutcome.DONE]


@pytest.mark.parametrize("end", ["close", "commit"])
def test_of_an_atomic_run_that_ends_its_own_transaction(worker: OneWorker, end: str) -> None:
    """As a generator does that another run has left, when it is closed in this one: it is not done."""

    def handle(task: Any) -> None:
        if end == "close":
            write("before")
            generator.close()
        else:
            transaction.atomic().__exit__(None, None, None)
            transaction.on_commit(lambda: None)

    def rows() -> Generator[int, None, None]:
        with transaction.atomic():
            yield 1

    generator = rows()
    handler_of(lambda task: next(generator) and None, code="leaves")
    handler_of(handle, code="ends", atomic=True, max_attempts=1)
    for code in ("leaves", "ends"):
        add(code=code)
        worker.run()
    generator.close()
    assert outcomes("ends") == [RunOutcome.FAILED]
    assert "ended one that was not its own" in TaskRun.objects.get(biz_code="ends").error
    assert effects() == []


@pytest.mark.parametrize("atomic", [False, True])
def test_what_a_receiver_of_run_started_leaves_open_costs_no_run_its_writes(worker: OneWorker, atomic: bool) -> None:
    def leave(**_: Any) -> None:
        misuse([("autocommit off", "default"), ("generator", "other")])

    handler_of(lambda task: write(), atomic=atomic, max_attempts=1)
    signals.run_started.connect(leave)
    try:
        add()
        worker.run()
    finally:
        signals.run_started.disconnect(leave)
    assert outcomes("code") == [RunOutcome.DONE]
    assert effects() == ["effect"]


def test_what_a_handler_leaves_open_costs_no_receiver_of_run_finished_its_writes(worker: OneWorker) -> None:
    def note(**_: Any) -> None:
        write("noted")

    handler_of(lambda task: misuse([("generator", "default")]), max_attempts=1)
    signals.run_finished.connect(note)
    try:
        add()
        worker.run()
    finally:
        signals.run_finished.disconnect(note)
    assert effects() == ["noted"]


def test_the_log_names_the_task_that_left_a_transaction_open(
    worker: OneWorker, caplog: pytest.LogCaptureFixture
) -> None:
    handler_of(lambda task: misuse([("generator", "default")]), max_attempts=1)
    add("7")
    worker.run()
    assert "code 7 left a transaction open on 'default': what it wrote there is rolled back" in caplog.text


def test_a_wrapper_that_one_receiver_adds_and_another_removes_is_there_in_the_run(worker: OneWorker) -> None:
    """As that of a tracer."""
    counts: list[int] = []
    numbers: set[int] = set()
    errors: list[Exception] = []

    def trace(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        counts[-1] += 1
        return execute(sql, params, many, context)

    def on(**_: Any) -> None:
        counts.append(0)
        connections["default"].execute_wrappers.append(trace)

    def off(**_: Any) -> None:
        try:
            connections["default"].execute_wrappers.remove(trace)
        except ValueError as error:
            errors.append(error)

    def handle(task: Any) -> None:
        Task.objects.exists()
        numbers.add(id(connections["default"].connection))

    handler_of(handle, max_attempts=1)
    signals.run_started.connect(on)
    signals.run_finished.connect(off)
    try:
        for number in range(3):
            add(str(number))
            worker.run()
    finally:
        signals.run_started.disconnect(on)
        signals.run_finished.disconnect(off)
    assert (counts, errors, len(numbers)) == ([1, 1, 1], [], 1)


def test_a_receiver_of_run_finished_sees_the_statements_of_the_run(worker: OneWorker, settings: Any) -> None:
    settings.DEBUG = True
    counts: list[int] = []

    def query_twice(task: Any) -> None:
        Task.objects.exists()
        Task.objects.exists()

    def note(**_: Any) -> None:
        counts.append(len(connections["default"].queries_log))

    handler_of(query_twice)
    signals.run_finished.connect(note)
    try:
        for number in range(2):
            add(str(number))
            worker.run()
    finally:
        signals.run_finished.disconnect(note)
    assert counts[1] == 2


def test_what_a_run_has_not_committed_by_hand_is_rolled_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a database with ``AUTOCOMMIT: False``, where the next run would commit it."""
    entry = {**connections.settings["other"], "NAME": tmp_path / "by hand", "AUTOCOMMIT": False}
    monkeypatch.setitem(connections.settings, "other", entry)
    with sqlite3.connect(tmp_path / "by hand") as session:
        session.execute("CREATE TABLE noted (number TEXT)")

    def handle(task: Any) -> None:
        with connections["other"].cursor() as cursor:
            cursor.execute("INSERT INTO noted VALUES (%s)", [task.biz_num])
        if task.biz_num == "fails":
            raise ValueError("no")
        transaction.commit(using="other")

    handler_of(handle, max_attempts=1)
    with one_worker() as worker:
        for number in ("fails", "commits"):
            add(number)
            worker.run()
    assert session.execute("SELECT number FROM noted").fetchall() == [("commits",)]
    session.close()


def test_an_error_while_it_connects_again_harms_no_run(worker: OneWorker) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("no connection for that")

    def handle(task: Any) -> None:
        Task.objects.exists()
        if task.biz_num == "0":
            misuse([("wrapper", "default")])
            connection_created.connect(fail)

    handler_of(handle, max_attempts=1)
    add("0")
    try:
        worker.run()
    finally:
        connection_created.disconnect(fail)
    add("1")
    worker.run()
    assert outcomes("code") == [RunOutcome.DONE] * 2
