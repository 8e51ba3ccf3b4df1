"""Notices of other processes."""

import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import Task, add_task, clock
from django_delayed_tasks.executor.claiming.listener import LASTING, MIN_PAUSE, RATE, Listener, Pace
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.store import notices
from django_delayed_tasks.store.notices import Notice, channels, mysql, wakeup
from django_delayed_tasks.store.notices.channels import Subscription, notify
from tests.executor.parts import add, executing, handler_of, registered
from tests.listeners import CAN_BE_CUT, cut, listening
from tests.threads import start_thread
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
IS_MYSQL = connection.vendor == "mysql"


class Unknown(set[int]):
    """A set that contains nothing, whatever is added."""

    def __contains__(self, _: object) -> bool:
        return False


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the notices of this test seem to come from another process."""
    monkeypatch.setattr(notices, "process", iter(str(number) for number in range(10**6)).__next__)
    monkeypatch.setattr(mysql, "_own", Unknown())
    monkeypatch.setattr(mysql, "LOOK_EVERY", 0.0)


@pytest.fixture
def subscription() -> Iterator[Subscription]:
    registered("subscription", queues=("default", "queue with spaces"))
    subscription = channels.subscribe("default", "subscription")
    yield subscription
    subscription.close()


def listeners() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "listener"]


def receive(subscription: Subscription) -> Notice:
    """The only notice that comes."""
    heard: list[Notice] = []
    while not heard:
        select.select([subscription], [], [], LIMIT)
        heard += subscription.receive()
    [notice] = heard
    return notice


class TestSubscription:
    @pytest.mark.skipif(IS_MYSQL, reason="a sender on MariaDB and MySQL leaves out the listeners of its own process")
    def test_hear_who_said_what(self, subscription: Subscription) -> None:
        notify("default", "queue with spaces")
        assert receive(subscription) == Notice("queue with spaces", is_own=True)

    def test_hear_others(self, subscription: Subscription, elsewhere: None) -> None:
        add_task(Task(biz_code="code", biz_num="1"))
        assert receive(subscription) == Notice("" if IS_MYSQL else "default", is_own=False)

    def test_hear_again_and_again(self, subscription: Subscription, elsewhere: None) -> None:
        for _ in range(5):
            assert any(self.is_heard(subscription) for _ in range(3))

    def is_heard(self, subscription: Subscription) -> bool:
        """Notify; on MariaDB and MySQL this may end the last sleep, which a server lists until the next one begins."""
        wait_until(listening)
        notify("default", "default")
        select.select([subscription], [], [], LIMIT)
        return bool(subscription.receive())


class Wakings(threading.Event):
    """An event that counts how often it is set."""

    count = 0

    def set(self) -> None:
        self.count += 1
        super().set()


class TestPace:
    @pytest.fixture(autouse=True)
    def hands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.second = 0.0
        self.listeners = 1
        monkeypatch.setattr(clock, "monotonic", lambda: self.second)
        self.pace = Pace()

    def receive(self, is_waking: bool = True) -> float:
        """Let it hear a notice; return how long it had to wait before."""
        left = self.pace.seconds_left(self.listeners)
        self.second += left
        assert self.pace.seconds_left(self.listeners) == pytest.approx(0)
        self.pace.note_hearing(is_waking)
        return left

    def test_at_once_after_a_while(self) -> None:
        for _ in range(100):
            assert self.receive() == 0
            self.second += 1.0

    def test_many_notices_are_heard_together(self) -> None:
        assert [self.receive() for _ in range(3)] == pytest.approx([0, MIN_PAUSE, MIN_PAUSE])

    @pytest.mark.parametrize("executors", [1, 8, 100])
    def test_wakings_of_all_do_not_grow_with_the_executors(self, executors: int) -> None:
        self.listeners = executors
        for _ in range(200):
            self.receive()
        before = self.second
        for _ in range(100):
            self.receive()
        assert 100 / (self.second - before) == pytest.approx(RATE / executors)

    def test_what_wakes_no_executor_is_heard_as_it_comes(self) -> None:
        self.receive()
        assert [self.receive(is_waking=False) for _ in range(1000)] == pytest.approx([MIN_PAUSE] * 1000)


class TestListener:
    @pytest.fixture
    def listener(self, elsewhere: None) -> Iterator[Listener]:
        options = ExecutorOptions(name="mine", queues=("mine", "mail"))
        registered("mine", queues=("mine", "mail"))
        self.capacity = Capacity(options)
        self.capacity.plain.wake = self.wakings = Wakings()
        listener = Listener(options, Peers(), self.capacity)
        listener.prepare()
        listener.listen()
        wait_until(listening)  # on MariaDB and MySQL, a notice for a connection that does not sleep yet is lost
        yield listener
        listener.close()

    @property
    def woken(self) -> int:
        return self.wakings.count

    def test_looks_once_when_it_begins(self, listener: Listener) -> None:
        assert self.woken == 1
        listener.interrupt()
        listener.listen()
        assert self.woken == 1

    def receive(self, listener: Listener, *queues: str) -> None:
        """Listen until a notice for one of the queues is heard.

        They are sent again and again: a server loses one that comes when a sleep has just ended, or is only beginning.
        """
        heard = threading.Event()

        def send() -> None:
            while not heard.is_set():
                for queue in queues:
                    notify("default", queue)

        sending = start_thread(send)
        listener.listen()
        heard.set()
        sending.result()

    def test_wakes_for_queues_that_are_served(self, listener: Listener) -> None:
        while self.woken < 2:
            self.receive(listener, "other", "mine", "", "other")

    @pytest.mark.skipif(not IS_MYSQL, reason="only a sleep ends without a notice")
    def test_wakes_after_a_sleep_in_which_a_notice_may_have_been_lost(
        self, listener: Listener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mysql, "SLEEP", 0.01)
        while self.woken < 3:  # its first sleep was longer
            listener.listen()

    @pytest.mark.skipif(IS_MYSQL, reason="MariaDB and MySQL tell only executors that serve the queue")
    def test_others_are_nothing_to_it(self, listener: Listener) -> None:
        notify("default", "other")
        listener.listen()
        assert self.woken == 1
        while self.woken < 2:
            self.receive(listener, "mine")

    def test_does_not_wake_who_is_busy(self, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Capacity, "wants_more", False)
        self.receive(listener, "mine")
        assert self.woken == 1

    def test_ends_when_told_to(self, listener: Listener) -> None:
        listener.interrupt()
        listener.listen()

    @pytest.mark.skipif(not CAN_BE_CUT, reason="a socket is not lost")
    def test_lost_connection_is_an_error_and_replaced(self, listener: Listener) -> None:
        cut(listening())
        with pytest.raises(Exception, match="connection"):
            while True:  # first it hears why
                listener.listen()
        woken = self.woken
        listener.recover()
        listener.listen()
        assert self.woken == woken + 1
        while self.woken < woken + 2:
            self.receive(listener, "mine")

    def test_sessions_that_do_not_last_are_replaced_later_and_later(self, listener: Listener) -> None:
        pauses = [listener.pause]
        for _ in range(3):
            listener.recover()
            pauses.append(listener.pause)
            listener.listen()
        assert pauses == [0.0, 0.2, 0.4, 0.8]
        listener._opened -= LASTING
        listener.recover()
        assert listener.pause == 0.0


class TestExecutor:
    def test_listens_where_there_is_something_to_hear(self) -> None:
        with executing():
            assert listeners() == ["listener"]
            wait_until(listening)
        assert listeners() == []
        wait_until(lambda: not listening())

    @pytest.mark.parametrize("options", [{"notify": False}, {"drain": True}])
    def test_does_not_when_it_is_not_wanted(self, options: dict[str, Any]) -> None:
        with executing(**options):
            assert listeners() == []

    def test_starts_what_another_process_adds(self, elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
        ran: list[str] = []
        handler_of(lambda task: ran.append(task.biz_num))
        monkeypatch.setattr(wakeup, "wake", lambda: None)
        with executing(poll_interval=600.0):
            wait_until(listening)
            for number in ("1", "2", "3"):
                add(number)
                wait_until(lambda number=number: number in ran)  # type: ignore[misc]

    @pytest.mark.skipif(not IS_MYSQL, reason="only MariaDB and MySQL lose a notice between two sleeps")
    def test_starts_a_task_whose_notice_was_lost_before_it_would_poll(
        self, elsewhere: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran: list[str] = []
        handler_of(lambda task: ran.append(task.biz_num))
        monkeypatch.setattr(wakeup, "wake", lambda: None)
        monkeypatch.setattr(mysql, "_wake", lambda alias, listener: True)
        with executing(poll_interval=600.0):
            wait_until(listening)
            add("1")
            wait_until(lambda: ran)
