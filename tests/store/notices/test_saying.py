"""What makes executors in other processes hear of tasks: each commit that makes one claimable soon, once."""

import logging
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from django_delayed_tasks import Task, add_tasks, clock, reschedule_task, resume_queue
from django_delayed_tasks.store.notices import channels, wakeup
from tests.executor.parts import add

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues that other processes are told of."""
    queues: list[str] = []
    monkeypatch.setattr(wakeup, "notify", lambda alias, queue: queues.append(queue))
    return queues


class Broken:
    """A channel on which nothing can be sent."""

    @staticmethod
    def can_notify(alias: str) -> bool:
        return True

    @staticmethod
    def notify(alias: str, queue: str) -> None:
        raise DatabaseError("not allowed")


class TestSaying:
    @pytest.mark.parametrize(
        ("when", "is_said"),
        [(None, True), (timedelta(seconds=0.3), True), (timedelta(seconds=0.5), False), (timedelta(-1), True)],
    )
    def test_what_is_due_before_the_next_poll(self, said: list[str], when: Any, is_said: bool) -> None:
        add(when=when, queue="mail")
        assert said == (["mail"] if is_said else [])
        said.clear()
        add(when=None if when is None else clock.host_now() + when, queue="mail")
        assert said == (["mail"] if is_said else [])

    def test_once_for_each_commit_after_it(self, said: list[str]) -> None:
        with transaction.atomic():
            for number in range(5):
                add(str(number))
            assert said == []
        assert said == ["default"]
        add("6")
        assert len(said) == 2

    def test_not_of_what_was_rolled_back(self, said: list[str]) -> None:
        with transaction.atomic():
            add()
            transaction.set_rollback(True)
        assert said == []

    @pytest.mark.parametrize(
        ("queues", "expected"), [("a", ["a"]), ("cab", ["a", "b", "c"]), ("abcd", [wakeup.ANY]), ("", [])]
    )
    def test_of_the_queues_of_many(self, said: list[str], queues: str, expected: list[str]) -> None:
        later = Task(biz_code="code", biz_num="later", queue="z", when=timedelta(hours=1))
        add_tasks([later, *(Task(biz_code="code", biz_num=queue, queue=queue) for queue in queues)])
        assert said == expected

    def test_of_what_is_claimable_by_other_means(self, said: list[str]) -> None:
        add(when=timedelta(hours=1))
        reschedule_task("code", "1", timedelta(hours=2))
        assert said == []
        reschedule_task("code", "1", None)
        resume_queue("mail")
        assert said == [wakeup.ANY, "mail"]

    @pytest.mark.parametrize(("is_here", "callbacks"), [(False, 0), (True, 1)])
    def test_nothing_follows_a_task_for_later_but_what_an_executor_here_is_told(
        self, is_here: bool, callbacks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sleeper = Event()
        monkeypatch.setattr(wakeup, "_sleepers", {sleeper} if is_here else set())
        with transaction.atomic():
            add(when=timedelta(hours=1))
            assert len(connection.run_on_commit) == callbacks
        assert sleeper.is_set() is is_here

    def test_not_when_it_is_not_wanted(self, said: list[str], settings: Any) -> None:
        settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "NOTIFY": False}
        add()
        assert said == []

    def test_that_it_cannot_be_said_is_no_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(channels, "_silent_until", {})
        monkeypatch.setattr(channels, "_channel", lambda alias: Broken)
        add("1")
        add("2")
        assert Task.objects.count() == 2
        assert channels._silent_until["default"] > clock.monotonic()

    def test_a_log_that_raises_is_no_error_either(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The caller would think that its task, which is committed, was not added."""
        monkeypatch.setattr(channels, "_silent_until", {})
        monkeypatch.setattr(channels, "_channel", lambda alias: Broken)
        refusing = logging.Handler()
        monkeypatch.setattr(refusing, "emit", lambda record: 1 / 0)
        caplog.set_level(logging.INFO, channels.__name__)
        logging.getLogger().addHandler(refusing)
        try:
            add("1")
        finally:
            logging.getLogger().removeHandler(refusing)
        assert Task.objects.count() == 1
