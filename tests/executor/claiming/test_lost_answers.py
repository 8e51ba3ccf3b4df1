"""What the executor makes of answers of the database that were lost on their way."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, connections, transaction

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.claiming import poller
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.unanswered_claims import UnansweredClaims
from django_delayed_tasks.models import Executor
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement
from tests.executor.batches import batched
from tests.executor.parts import Bench, add, claim, handler_of
from tests.executor.settling.test_settler import BREAK
from tests.store.meters import statements
from tests.threads import in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_claim_that_is_committed_after_the_look_is_found_by_another_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has not noticed yet that the connection of that claim is gone."""
    unanswered = UnansweredClaims("default", bench.lease, bench.held)
    unanswered.note_lost()
    unanswered.look()
    add()
    [task] = claim(bench.lease.executor)
    later = clock.monotonic() + 60
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    unanswered.look()
    assert [settlement.claim for settlement in bench.released] == [task.claim]


def test_after_an_error_it_is_looked_for_at_once(bench: Bench) -> None:
    """It may have been the answer of a claim that was lost."""
    add()
    [task] = claim(bench.lease.executor)
    bench.poller.poll()
    assert bench.released == []
    bench.poller.forget()
    bench.poller.poll()
    assert [settlement.claim for settlement in bench.released] == [task.claim]


def test_it_is_looked_for_although_no_thread_is_free(make_bench: Callable[..., Bench]) -> None:
    """The claims of lanes are made by another thread than the poller's, which may have no room meanwhile."""
    bench = make_bench(threads=1)
    handler_of(lambda task: None)
    add("1")
    bench.poller.poll()
    add("2")
    [task] = claim(bench.lease.executor)
    bench.poller._unanswered.note_lost()
    bench.poller.poll()
    assert [settlement.claim for settlement in bench.released] == [task.claim]


def test_a_claim_that_is_being_made_is_not_lost(bench: Bench) -> None:
    """However long its answer takes: the poller does not wait for it, and looks again."""
    unanswered = UnansweredClaims("default", bench.lease, bench.held)
    add()
    with bench.held.claiming.lanes:
        [task] = claim(bench.lease.executor)
        unanswered.note_lost()
        unanswered.look()
        assert bench.released == []
    unanswered.look()
    assert [settlement.claim for settlement in bench.released] == [task.claim]


def test_nothing_is_looked_for_while_nothing_is_claimed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that is idle asks the database no more than whether something is due."""
    now = clock.monotonic()
    monkeypatch.setattr(bench.lease, "claims_until", float("inf"))
    for seconds, count in ((0, 1), (5, 0), (100, 1), (200, 0)):
        monkeypatch.setattr(clock, "monotonic", lambda: now + seconds)  # noqa: B023
        with statements() as sent:
            if seconds == 0:
                bench.poller._unanswered.note_lost()
            bench.poller.poll()
        assert len([sql for sql in sent if "executor" in sql]) == count


def test_an_executor_that_has_just_started_has_no_claim_to_look_for(bench: Bench) -> None:
    """Its id is new."""
    with statements() as sent:
        bench.poller.poll()
    assert len(sent) == 1, "the agenda"


def test_where_the_look_is_slow_it_is_rare(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a hundredth of the time at most."""
    now = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(bench.lease, "claims_until", float("inf"))

    def watch(execute: Any, *statement: Any) -> Any:
        if "executor" in statement[0]:
            now[0] += 0.3
            looked.append(statement[0])
        return execute(*statement)

    looked: list[str] = []
    with connection.execute_wrapper(watch):
        for seconds, count in ((9, 0), (2, 1), (20, 1), (11, 2)):
            now[0] += seconds
            bench.poller._unanswered.note_try()
            bench.poller.poll()
            assert len(looked) == count


def batch_of_four() -> None:
    """Four due tasks that one call takes, of which an executor with one thread claims the first by itself."""
    batched(lambda tasks: None, batch_size=4)
    for number in range(4):
        add(str(number))


class TestCompany:
    """More of a batch is claimed by a statement of its own; what the first one has won must not be lost with it."""

    def test_is_not_asked_for_when_there_was_no_more(self, make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []

        def strategy(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
            asked.append(request.only or "")
            return usual(alias, request)

        usual = strategy_for("default", "auto")
        monkeypatch.setattr(poller, "strategy_for", lambda alias, name: strategy)
        bench = make_bench(threads=7)
        batch_of_four()
        add("one more", "code")
        bench.poller.poll()
        assert (len(bench.delivered), asked) == (5, [""])

    def test_whose_answer_was_lost_is_found_by_the_next_look(
        self, make_bench: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = clock.monotonic()

        def after(seconds: float) -> None:
            monkeypatch.setattr(clock, "monotonic", lambda: now + seconds)
            bench.lease.renew()

        def strategy(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
            tasks = usual(alias, request)
            if request.only:
                raise OperationalError(2013, "Lost connection to server during query")
            return tasks

        usual = strategy_for("default", "auto")
        monkeypatch.setattr(poller, "strategy_for", lambda alias, name: strategy)
        bench = make_bench(threads=1)
        batch_of_four()
        after(101.0)
        bench.poller.poll()
        assert (bench.numbers, bench.released) == (["0"], [])
        after(200.0)
        bench.held.end([task.claim for task in bench.delivered], ())  # otherwise it would claim nothing more
        bench.poller.poll()
        assert len(bench.released) == 3
        assert not {settlement.claim for settlement in bench.released} & {task.claim for task in bench.delivered}


def test_a_registration_whose_answer_was_lost_is_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(ExecutorOptions(name="executing"))
    lease.acquire()
    Executor.objects.update(alive=None)
    assert not lease.renew()

    def losing(*arguments: Any) -> Any:
        atomically(*arguments)
        raise OperationalError(2013, "Lost connection to server during query")

    with monkeypatch.context() as patch:
        patch.setattr(executors, "atomically", losing)
        with pytest.raises(DatabaseError):
            lease.acquire()
    assert not lease.renew()
    lease.acquire()
    assert lease.renew()
    assert Executor.objects.get(alive=True).pk == lease.executor
    lease.end()


def test_two_of_one_name_in_one_process_do_not_take_it_from_each_other() -> None:
    first, second = (Lease(ExecutorOptions(name="executing", lease=30.0)) for _ in range(2))
    first.acquire()
    Executor.objects.update(alive=None)
    second.acquire()
    for lease in (first, first):
        with pytest.raises(NameInUse):
            lease.acquire()
    first.end()
    with pytest.raises(NameInUse):
        first.acquire()
    second.end()
    first.acquire()
    first.end()


class TestEndOfATransaction:
    """After the COMMIT, Django turns autocommit on again; to MariaDB and MySQL that is a statement of its own."""

    __test__ = settings.DDT_DATABASE in ("mariadb", "mysql")

    def test_a_connection_that_breaks_there_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def kill() -> None:
            number = connection.connection.thread_id()
            in_thread(lambda: execute(f"KILL {number}"))

        def lose_connection() -> None:
            commit = connection.commit

            def commit_and_lose() -> None:
                commit()
                kill()

            with monkeypatch.context() as patch:
                patch.setattr(connection, "commit", commit_and_lose)
                with pytest.raises(OperationalError), transaction.atomic():
                    execute("SELECT 1")

        def use() -> None:
            lose_connection()
            with pytest.raises(OperationalError):
                atomically("default", lambda cursor: cursor.execute("SELECT 1"))
            kept_connections.discard_unusable(connections["default"])
            atomically("default", lambda cursor: cursor.execute("SELECT 1"))
            assert not kept_connections.discard_unusable(connections["default"])

        in_thread(use)


class TestBrokenConnection:
    """Breaks while more of a batch is claimed."""

    __test__ = settings.DDT_DATABASE != "sqlite"

    def test_the_next_claim_has_another_one(self, make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def strategy(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
            if request.only:
                in_one_statement(alias, lambda cursor: cursor.execute(BREAK[connection.vendor]))
            return usual(alias, request)

        def poll() -> None:
            before = kept_connections.losses
            bench.poller.poll()
            assert (bench.numbers, kept_connections.losses - before) == (["0"], 1)
            monkeypatch.setattr(poller, "missing_in_batch", lambda tasks: 0)
            bench.finish(bench.delivered)
            bench.poller.poll()
            assert bench.numbers[:2] == ["0", "1"]

        usual = strategy_for("default", "auto")
        monkeypatch.setattr(poller, "strategy_for", lambda alias, name: strategy)
        bench = make_bench(threads=1)
        batch_of_four()
        in_thread(poll)


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_a_transaction_that_was_left_open_is_discarded() -> None:
    """Its connection works, but nothing that is written through it would be committed."""

    def leave_open() -> None:
        transaction.set_autocommit(False)
        assert kept_connections.discard_unusable(connections["default"])
        assert transaction.get_autocommit()
        assert not kept_connections.discard_unusable(connections["default"])

    in_thread(leave_open)
