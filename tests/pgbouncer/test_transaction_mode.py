"""Through PgBouncer in transaction mode each transaction may have another session: nothing is meant for a session."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction

from django_delayed_tasks import (
    AddAction,
    CancelResult,
    Task,
    add_task,
    add_tasks,
    cancel_task,
    delete_tasks,
    forget,
    get_runs,
    pause_queue,
    pause_task,
    reschedule_task,
    resume_queue,
    resume_task,
)
from django_delayed_tasks.executor.claiming.listener import Listener
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.models import Resource
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store import notices
from django_delayed_tasks.store.notices import postgres, wakeup
from django_delayed_tasks.store.resources import resources
from django_delayed_tasks.store.resources.resources import Grant, WantedResource
from tests.executor.parts import executing, handler_of
from tests.pgbouncer.conftest import SESSIONS
from tests.threads import start_thread
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.usefixtures("through_transactions")
HOUR = timedelta(hours=1)


def answers(sql: str) -> set[Any]:
    """Return the answers of many sessions of the server."""
    found = set()
    for _ in range(4 * SESSIONS):
        with connection.cursor() as cursor:
            cursor.execute(sql)
            found.add(cursor.fetchone()[0])
    return found


def task(number: str, **values: Any) -> Task:
    return Task(biz_code="code", biz_num=number, **values)


def test_statements_have_many_sessions() -> None:
    """The other tests would prove nothing otherwise."""
    assert len(answers("SELECT pg_backend_pid()")) >= SESSIONS


def test_all_verbs() -> None:
    assert add_task(task("1", when=HOUR)).action is AddAction.CREATED
    assert add_task(task("1", when=2 * HOUR)).action is AddAction.REPLACED
    assert add_task(task("once", when=HOUR), once=True).action is AddAction.CREATED
    assert add_tasks([task(str(number), when=HOUR) for number in range(300)], if_exists="keep", batch_size=100) == 299
    assert reschedule_task("code", "1", HOUR)
    assert pause_task("code", "1")
    assert resume_task("code", "1")
    assert pause_queue("mail")
    assert resume_queue("mail")
    assert cancel_task("code", "1") is CancelResult.CANCELLED
    assert cancel_task("code", "1") is CancelResult.MISSING
    assert not forget("code", "once")
    assert delete_tasks("code", "", everything=True) == 300
    assert not Task.objects.exists()
    assert get_runs("code").filter(outcome=RunOutcome.CANCELLED).count() == 301


@pytest.mark.parametrize("attributes", [{}, {"atomic": True}, {"max_concurrent": 2}], ids=str)
def test_an_executor(attributes: dict[str, Any]) -> None:
    def handle(given: Any) -> None:
        Task.objects.filter(biz_code="other").exists()
        if given.attempts == 1 and given.biz_num in ("1", "3", "5"):
            raise ValueError(given.biz_num)

    handler_of(handle, max_attempts=2, backoff=lambda self, attempt: timedelta(), **attributes)
    add_tasks([task(str(number)) for number in range(40)])
    with executing(threads=4):
        wait_until(lambda: get_runs("code").filter(outcome=RunOutcome.DONE).count() == 40)
    assert get_runs("code").filter(outcome=RunOutcome.RETRIED).count() == 3
    assert not Task.objects.exists()
    assert answers("SHOW lock_timeout") == {"0"}


def test_leases() -> None:
    Pool("proxies").add("a")
    with mutex("index", ttl=12) as lease, Pool("proxies").lease(ttl=12) as proxy:
        before = lease.runs_until
        wait_until(lambda: lease.runs_until > before)
        lease.state = {"at": 1}
        lease.save_state()
        proxy.check()
    with mutex("index") as lease:
        assert lease.state == {"at": 1}
    assert not Resource.objects.exclude(holder="").exists()


def test_a_lease_that_stays_locked_leaves_nothing_to_other_sessions() -> None:
    resources.ensure("default", WantedResource(resources.MUTEXES, "index"))
    row = Resource.objects.get()
    grant = resources.take("default", (row.pk, row.version), "holder", HOUR)
    assert grant is not None
    has_locked, may_end = Event(), Event()

    def lock() -> None:
        with transaction.atomic():
            Resource.objects.select_for_update().get()
            has_locked.set()
            may_end.wait(LIMIT)

    thread = start_thread(lock)
    try:
        assert has_locked.wait(LIMIT)
        assert renewed(grant) == ({grant}, set())
    finally:
        may_end.set()
        thread.result()
    assert renewed(grant) == (set(), {grant})
    assert answers("SHOW lock_timeout") == {"0"}


def renewed(grant: Grant) -> tuple[set[Grant], set[Grant]]:
    found = resources.renew("default", [(grant, HOUR)])
    return found.locked, found.held


class TestNotices:
    @pytest.fixture(autouse=True)
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres, "ECHO", 0.5)
        monkeypatch.setattr(notices, "process", iter(str(number) for number in range(10**6)).__next__)

    def test_an_executor_says_once_that_it_hears_none_and_polls(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran: list[str] = []
        handler_of(lambda given: ran.append(given.biz_num))
        monkeypatch.setattr(wakeup, "wake", lambda: None)
        with executing():
            wait_until(lambda: "passes no notices on" in caplog.text)
            for number in ("1", "2", "3"):
                add_task(task(number))
                wait_until(lambda number=number: number in ran)  # type: ignore[misc]
        assert caplog.text.count("passes no notices on") == 1

    def test_no_session_keeps_listening(self, caplog: pytest.LogCaptureFixture) -> None:
        options = ExecutorOptions()
        listener = Listener(options, Peers(), Capacity(options))
        listener.prepare()
        try:
            assert [listener.listen(), listener.listen()] == [3600.0, 3600.0]
        finally:
            listener.close()
        assert caplog.text.count("passes no notices on") == 1
        listening = f"SELECT COUNT(*) FROM pg_listening_channels() channel WHERE channel = '{postgres.CHANNEL}'"
        assert answers(listening) == {0}
