"""The page of queues: what is due in each, which are paused; paused and resumed, logged."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_delayed_tasks import clock, pause_queue, resume_queue
from django_delayed_tasks.admin import queues
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import PausedQueue, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats import backlogs
from django_delayed_tasks.stats.snapshot import take_snapshot
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.admin.pages import messages_of, numbers_of, rows_of
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, list_of, new_task, task

LIST = list_of("pausedqueue")
HOSTILE = "<script>alert(1)</script>\"'&"

pytestmark = [pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def shown(client: Client) -> dict[str, dict[str, str]]:
    """The rows of the page, by the queues' names."""
    return {row["name"]: row for row in rows_of(client.get(LIST))}


class TestLooks:
    def test_due_next_running_and_codes(self, boss: Client) -> None:
        executor("web/1")
        for number, priority in enumerate((0, 5, 5)):
            task(f"due {number}", NOW - MINUTE, claim_at=NOW - MINUTE, queue="mail", priority=priority)
        task("later", queue="mail")
        task("runs", queue="mail", status=TaskStatus.RUNNING)
        task("soon", NOW + 5 * MINUTE, queue="shop")
        rows = shown(boss)
        assert list(rows) == ["mail", "shop", "default"]  # the last one is only named by a handler
        mail = {"name": "mail", "state": "open", "buttons": "Pause", "due": "3", "running": "1"}
        mail |= {"served": "web/1", "next.second": "2031-05-17 11:29:00"}
        assert rows["mail"] == mail | {"next": "late by 1 min", "codes": ""}
        assert (rows["shop"]["due"], rows["shop"]["next"], rows["shop"]["codes"]) == ("0", "in 5 min", "test.shop")
        assert (rows["default"]["next"], rows["default"]["codes"]) == ("-", "test.mail")

    def test_tasks_that_only_a_limit_holds_are_not_late(self, boss: Client) -> None:
        executor("web/1")
        blocked: dict[str, Any] = {"queue": "shop", "lane": blocked_lane(CODE, "key")}
        task("1", claim_at=NOW - HOUR, **blocked)
        row = shown(boss)["shop"]
        assert (row["due"], row["due.second"], row["next"]) == ("1", "1 task waits for a limit", "blocked by limits")
        task("2", claim_at=NOW - MINUTE, queue="shop")
        row = shown(boss)["shop"]
        assert (row["due"], row["next"]) == ("2", "late by 1 min")

    def test_served_by(self, boss: Client) -> None:
        executor("all")
        executor("not shop", exclude_queues=["shop"])
        executor("only shop", queues=["shop"])
        executor("lost", expires_at=NOW - MINUTE)
        executor("ended", alive=None)
        rows = shown(boss)
        assert (rows["shop"]["served"], rows["default"]["served"]) == ("all, only shop", "all, not shop")

    def test_served_by_many(self, boss: Client) -> None:
        for number in range(7):
            executor(f"w{number}")
        assert shown(boss)["shop"]["served"] == "w0, w1, w2, w3, w4 and 2 more"

    def test_not_served(self, boss: Client) -> None:
        executor("other", queues=["default"])
        rows = shown(boss)
        assert (rows["shop"]["state"], rows["shop"]["served"]) == ("not served", "no executor")
        assert rows["default"]["state"] == "open"

    def test_paused_ones_come_first_with_what_waits_in_them(self, boss: Client) -> None:
        task("1", NOW - MINUTE, claim_at=NOW - MINUTE, queue="shop", priority=3)
        task("2", NOW - HOUR, claim_at=NOW - HOUR, queue="shop", priority=7)
        with clock.frozen_at(NOW - 2 * HOUR):
            pause_queue("shop")
        pause_queue("empty")
        rows = shown(boss)
        assert list(rows) == ["shop", "empty", "default"]
        assert (rows["shop"]["state"], rows["shop"]["buttons"]) == ("paused", "Resume")
        assert (rows["shop"]["due"], rows["shop"]["next"]) == ("2", "late by 1 h")
        assert rows["shop"]["state.second"] == "since 2031-05-17 09:30:00 for 2 h"

    def test_counts_no_further_than_a_thousand(self, boss: Client) -> None:
        due = {"claim_at": NOW - HOUR, "queue": "mail"}
        Task._base_manager.bulk_create(new_task(f"{i}", NOW - HOUR, **due) for i in range(1000))
        assert shown(boss)["mail"]["due"] == "1,000"
        task("one more", NOW - HOUR, **due)
        assert shown(boss)["mail"]["due"] == "more than 1,000"
        pause_queue("mail")
        assert shown(boss)["mail"]["due"] == "more than 1,000"

    def test_links_lead_to_the_tasks(self, boss: Client) -> None:
        task("1", NOW - MINUTE, claim_at=NOW - MINUTE, queue="a&b c")
        task("2", queue="a&b c")
        pause_queue("a&b c")
        html = boss.get(LIST).content.decode()
        [tasks] = re.findall(r'field-name"><a href="([^"]*a%26b[^"]*)"', html)
        [due] = re.findall(r'field-due nowrap"[^>]*><a href="([^"]*)"', html)
        assert numbers_of(boss.get(tasks.replace("&amp;", "&"))) == ["1", "2"]
        assert numbers_of(boss.get(due.replace("&amp;", "&"))) == ["1"]

    def test_no_more_than_the_limit(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (queues, backlogs):
            monkeypatch.setattr(module, "MAX_QUEUES", 3)
        Task._base_manager.bulk_create(new_task(f"{i}", queue=f"q{i}") for i in range(5))
        response = boss.get(LIST)
        assert [row["name"] for row in rows_of(response)] == ["q0", "q1", "q2"]
        assert "No more than 3 queues are shown" in response.content.decode()

    def test_names_are_escaped(self, boss: Client) -> None:
        task(queue=HOSTILE)
        boss.post(LIST, {"pause": HOSTILE})
        html = boss.get(LIST).content.decode()
        assert "<script>alert" not in html
        assert next(iter(shown(boss))) == HOSTILE
        boss.post(LIST, {"resume": HOSTILE})
        assert not PausedQueue.objects.exists()


class TestSteering:
    def test_pause_and_resume(self, boss: Client) -> None:
        response = boss.post(LIST, {"pause": "mail"})
        assert messages_of(response) == ["The queue “mail” is paused: tasks already claimed will still run."]
        assert PausedQueue.objects.get().paused_at == NOW
        response = boss.post(LIST, {"resume": "mail"})
        assert messages_of(response)[1:] == ["The queue “mail” was resumed."]
        assert not PausedQueue.objects.exists()
        assert [(entry.object_repr, entry.get_change_message()) for entry in LogEntry.objects.order_by("pk")] == [
            ("mail", "Paused."),
            ("mail", "Resumed."),
        ]
        latest = boss.get(LIST).content.decode().partition("Latest changes")[2]
        assert latest.index("Resumed.") < latest.index("Paused.")

    def test_another_one_by_its_name(self, boss: Client) -> None:
        boss.post(LIST, {"pause": "", "name": " new one "})
        assert PausedQueue.objects.get().queue == "new one"

    def test_another_request_was_quicker(self, boss: Client) -> None:
        pause_queue("mail")
        assert messages_of(boss.post(LIST, {"pause": "mail"})) == ["The queue “mail” is paused already."]
        resume_queue("mail")
        assert messages_of(boss.post(LIST, {"resume": "mail"}))[1:] == ["The queue “mail” is no longer paused."]
        assert not LogEntry.objects.exists()

    @pytest.mark.parametrize("name", ["", "q" * 51, "a\0b"])
    def test_no_name_of_a_queue(self, boss: Client, name: str) -> None:
        for form in ({"pause": name}, {"pause": "", "name": name}, {"resume": name}, {}):
            assert boss.post(LIST, form).status_code == 302
        assert "must not be empty" in messages_of(boss.post(LIST, {"pause": ""}))[-1]
        assert not PausedQueue.objects.exists()

    def test_what_was_paused_by_other_means_can_be_resumed(self, boss: Client) -> None:
        PausedQueue.objects.create(queue=" x ", paused_at=NOW)
        boss.post(LIST, {"resume": " x "})
        assert not PausedQueue.objects.exists()

    def test_wakes_the_executors_of_this_process(
        self, boss: Client, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        from threading import Event

        from django_delayed_tasks.store.notices import wakeup

        pause_queue("mail")
        sleeper = Event()
        wakeup.enlist(sleeper)
        with django_capture_on_commit_callbacks(execute=True):
            boss.post(LIST, {"resume": "mail"})
        wakeup.dismiss(sleeper)
        assert sleeper.is_set()


@pytest.mark.parametrize(
    ("permissions", "may_look", "may_operate"),
    [([], False, False), (["view"], True, False), (["change"], True, True), (["add", "delete"], False, False)],
)
def test_permissions(db: None, permissions: list[str], may_look: bool, may_operate: bool) -> None:
    user = User.objects.create_user("clerk", is_staff=True)
    names = [f"{name}_pausedqueue" for name in permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    pause_queue("paused")
    response = client.get(LIST)
    assert response.status_code == (200 if may_look else 403)
    assert ("<button" in response.content.decode().partition("result_list")[2]) is may_operate
    for form in ({"pause": "mail"}, {"resume": "paused"}):
        assert client.post(LIST, form).status_code == (302 if may_operate else 403)
    assert set(PausedQueue.objects.values_list("queue", flat=True)) == ({"mail"} if may_operate else {"paused"})
    for view in ("add", "delete"):
        key = [] if view == "add" else ["paused"]
        assert client.get(reverse(f"admin:django_delayed_tasks_pausedqueue_{view}", args=key)).status_code in (403, 302)
    for view in ("change", "history"):
        address = reverse(f"admin:django_delayed_tasks_pausedqueue_{view}", args=["paused"])
        assert client.get(address).status_code == (302 if may_look else 403)


def test_strangers_are_asked_to_log_in(db: None) -> None:
    response: Any = Client().post(LIST, {"pause": "mail"})
    assert "login" in response.url
    assert not PausedQueue.objects.exists()


class TestStatements:
    def statements(self, client: Client) -> int:
        client.get(LIST)  # the content type is known from now on
        with CaptureQueriesContext(connection) as context:
            client.get(LIST)
        return len([query for query in context.captured_queries if "django_delayed_tasks_" in query["sql"]])

    def agenda(self) -> int:
        """Return the number of statements that find the levels: on SQLite some for each level."""
        with CaptureQueriesContext(connection) as context:
            waiting.read_agenda(settings.DATABASE)
        return len(context.captured_queries)

    def test_do_not_grow_with_the_tasks_nor_with_what_is_due(self, boss: Client) -> None:
        due = {"claim_at": NOW - HOUR}
        Task._base_manager.bulk_create(new_task(f"{i}", NOW - HOUR, queue=f"q{i % 20}", **due) for i in range(100))
        pause_queue("q3")
        assert self.statements(boss) == self.agenda() + 4
        # the paused ones, the running ones, the counts of 20 levels, the live executors

    def test_levels_of_a_paused_queue_take_none(self, boss: Client) -> None:
        pause_queue("q")
        before = self.agenda()
        Task._base_manager.bulk_create(new_task(f"{i}", queue="q", priority=i % 10) for i in range(50))
        assert self.agenda() == before

    @pytest.mark.parametrize("lane", ["=code", "~00000000000000000000000000000000=code"])
    def test_tasks_of_limited_codes_are_counted(self, boss: Client, lane: str) -> None:
        """Those that are blocked, too."""
        due = {"claim_at": NOW - HOUR, "queue": "mail", "lane": lane}
        Task._base_manager.bulk_create(new_task(f"{i}", NOW - HOUR, **due) for i in range(3))
        assert take_snapshot().due == {"mail": 3}


def test_many_levels_are_counted_in_few_statements(boss: Client) -> None:
    due = {"claim_at": NOW - HOUR, "queue": "mail"}
    Task._base_manager.bulk_create(new_task(f"{i}", NOW - HOUR, priority=i - 60, **due) for i in range(120))
    seen = take_snapshot()
    assert len(seen.agenda.levels) == 120
    with CaptureQueriesContext(connection) as context:
        assert seen.due == {"mail": 120}
    assert len(context.captured_queries) == 3
