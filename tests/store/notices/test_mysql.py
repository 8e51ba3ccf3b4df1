"""On MariaDB and MySQL a notice is KILL QUERY, which must end the sleep of one listener and nothing else."""

import select
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connection, connections

from django_delayed_tasks.models import Executor
from django_delayed_tasks.store.notices import CannotListen, channels, mysql
from django_delayed_tasks.store.notices.mysql import Subscription
from tests.executor.parts import registered
from tests.listeners import cut, listening
from tests.threads import start_thread
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
__test__ = connection.vendor == "mysql"


class Unknown(set[int]):
    """A set that contains nothing, whatever is added."""

    def __contains__(self, _: object) -> bool:
        return False


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listeners of this test are as those of another process."""
    monkeypatch.setattr(mysql, "_own", Unknown())


@pytest.fixture
def listeners() -> Iterator[list[Subscription]]:
    listeners: list[Subscription] = []
    for number in range(3):
        registered(f"executor {number} 🚀", queues=("mail", "other"))
        listeners.append(Subscription("default", f"executor {number} 🚀"))
    # The server may still hold one of an earlier test, which has gone.
    own = {one._connection.thread_id() for one in listeners}
    wait_until(lambda: own <= {*listening()})
    yield listeners
    for one in listeners:
        one.close()


def woken(listeners: list[Subscription]) -> list[Subscription]:
    """Those that hear something, as soon as one does."""
    readable, _, _ = select.select(listeners, [], [], LIMIT)
    return [one for one in readable if one.receive()]


def statements(run: Any) -> list[str]:
    """What ``run()`` sends to the server."""
    sent: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        sent.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(note):
        run()
    return sent


def test_one_of_several_listeners_is_woken(listeners: list[Subscription]) -> None:
    mysql.notify("default", "mail")
    assert len(woken(listeners)) == 1
    assert len(listening()) >= 2  # and the others sleep on


def test_each_is_woken_at_some_time(listeners: list[Subscription]) -> None:
    heard: set[Subscription] = set()
    while len(heard) < len(listeners):
        mysql.notify("default", "mail")
        heard.update(woken(listeners))


def test_news_for_any_queue_wake_all(listeners: list[Subscription]) -> None:
    mysql.notify("default", "")
    heard: set[Subscription] = set()
    while len(heard) < len(listeners):
        heard.update(woken([one for one in listeners if one not in heard]))


def test_no_statement_is_ended_for_a_queue_that_is_not_served(listeners: list[Subscription]) -> None:
    sent = statements(lambda: mysql.notify("default", "unknown"))
    assert not [sql for sql in sent if "KILL" in sql]


def test_who_listens_is_remembered_for_a_while(listeners: list[Subscription], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql, "LOOK_EVERY", 3600.0)

    def send() -> None:
        for _ in range(5):
            mysql.notify("default", "mail")

    sent = statements(send)
    assert [sql.split()[0] for sql in sent] == ["SELECT", *["KILL"] * 5]


def test_a_listener_that_has_gone_is_replaced_by_another(listeners: list[Subscription]) -> None:
    mysql.notify("default", "mail")  # now this connection knows all three
    woken(listeners)
    wait_until(lambda: len(listening()) == 3)
    first, second, last = listening()
    cut([first, second])
    wait_until(lambda: listening() == [last])
    mysql.notify("default", "mail")
    heard: list[Subscription] = []
    while not heard:
        heard = [one for one in listeners if one._connection.thread_id() == last and woken([one])]


def test_what_a_connection_knows_ends_with_it(listeners: list[Subscription]) -> None:
    """After a restart of the server the same id may belong to any connection."""
    mysql.notify("default", "mail")
    connection.close()
    sent = statements(lambda: mysql.notify("default", "mail"))
    assert "SELECT" in sent[-2]
    assert "KILL" in sent[-1]


def test_other_statements_of_a_listening_process_are_not_ended(listeners: list[Subscription]) -> None:
    """Hundreds of notices reach only sleeps: a statement of the same account in another connection ends normally."""

    def work() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT SLEEP(1)")
            return cursor.fetchone()

    other, heard = start_thread(work), 0
    while other.is_alive() or not heard:
        mysql.notify("default", "mail")
        readable, _, _ = select.select(listeners, [], [], 0)
        heard += sum(bool(one.receive()) for one in readable)
    assert other.result() == (0,)


class Proxied:
    """A driver's connection whose client was told another id than the server's, as by a proxy."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def thread_id(self) -> int:
        return int(self._session.thread_id()) + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class Foreign:
    """A connection of a driver that names its methods otherwise."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name.replace("thread_id", "connection_id"))


def test_nothing_is_ended_through_a_proxy(listeners: list[Subscription], monkeypatch: pytest.MonkeyPatch) -> None:
    connection.ensure_connection()
    monkeypatch.setattr(connections["default"], "connection", Proxied(connection.connection))
    sent = statements(lambda: mysql.notify("default", "mail"))
    assert [sql.split()[0] for sql in sent] == ["SELECT"]


def test_no_listener_sleeps_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = connection.Database.connect  # type: ignore[attr-defined]
    monkeypatch.setattr(connection.Database, "connect", lambda **given: Proxied(connect(**given)))  # type: ignore[attr-defined]
    with pytest.raises(CannotListen, match="a proxy is in front of the database"):
        Subscription("default", "one")


def test_no_listener_with_a_driver_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocking:
        def close(self) -> None:
            pass

    monkeypatch.setattr(connection.Database, "connect", lambda **given: Blocking())  # type: ignore[attr-defined]
    with pytest.raises(CannotListen, match="mysqlclient can"):
        Subscription("default", "one")


def test_a_successor_of_the_same_name_listens_at_once() -> None:
    registered("one")
    with closing(Subscription("default", "one")):  # its process may have been killed: the server does not know yet
        wait_until(listening)
        with closing(Subscription("default", "one")) as successor:
            wait_until(lambda: successor._connection.thread_id() in listening())
            mysql.notify("default", "mail")
            assert woken([successor]) == [successor]


def test_a_predecessor_that_ends_by_itself_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    end = Subscription._end

    def end_what_has_ended(self: Subscription, predecessor: int) -> None:
        end(self, predecessor)
        wait_until(lambda: not is_connected(predecessor))
        end(self, predecessor)

    registered("one")
    with closing(Subscription("default", "one")):
        wait_until(listening)
        monkeypatch.setattr(Subscription, "_end", end_what_has_ended)
        with closing(Subscription("default", "one")) as successor:
            wait_until(lambda: successor._connection.thread_id() in listening())


def is_connected(number: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s", [number])
        return bool(cursor.fetchone()[0])


def test_a_limit_of_the_server_wakes_no_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL answers a sleep that its limit ended as it answers one that KILL ended."""
    mariadb = connection.mysql_is_mariadb  # type: ignore[attr-defined]
    limit = "max_statement_time = 0.05" if mariadb else "max_execution_time = 50"
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "init_command", f"SET SESSION {limit}")
    monkeypatch.setattr(mysql, "SLEEP", 0.5)
    with closing(Subscription("default", "one")) as subscription:
        select.select([subscription], [], [], LIMIT)
        assert subscription.receive() == []


def test_a_sender_with_another_driver_raises_no_error(
    listeners: list[Subscription], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channels, "_silent_until", {})
    connection.ensure_connection()
    monkeypatch.setattr(connections["default"], "connection", Foreign(connection.connection))
    caplog.set_level("INFO", channels.__name__)
    channels.notify("default", "mail")
    assert "are not notified of new tasks" in caplog.text


def test_a_sleep_that_ends_by_itself_wakes_no_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql, "SLEEP", 0.01)
    # The name of no other test, whose connection may not have ended yet: SLEEP is also the wait for a name.
    with closing(Subscription("default", "by itself")) as subscription:
        for _ in range(3):
            select.select([subscription], [], [], LIMIT)
            assert subscription.receive() == []


def test_one_that_excludes_the_queue_is_not_taken_for_one_that_serves_it() -> None:
    """The notice would end there, and the executor that serves the queue would find the task by polling."""
    registered("all but mail", exclude_queues=("mail",))
    registered("all")
    with closing(Subscription("default", "all but mail")), closing(Subscription("default", "all")) as serving:
        sent = {sql for _ in range(10) for sql in statements(lambda: mysql.notify("default", "mail")) if "KILL" in sql}
        assert sent == {f"KILL QUERY {serving._connection.thread_id()}"}


@pytest.mark.parametrize("queues", [5, "mail", {"mail": 1}])
def test_a_row_that_was_written_by_other_means_fails_no_caller(listeners: list[Subscription], queues: Any) -> None:
    Executor.objects.update(queues=queues, exclude_queues=queues)
    sent = statements(lambda: mysql.notify("default", "mail"))
    assert len([sql for sql in sent if "KILL" in sql]) == 1
