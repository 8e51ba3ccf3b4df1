"""Resources and mutexes in the admin."""

import os
import re
import socket
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_delayed_tasks import clock
from django_delayed_tasks.admin.actions import row_actions
from django_delayed_tasks.leases import mutex
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import resources
from django_delayed_tasks.store.resources.resources import WantedResource
from tests.admin.pages import confirm, messages_of, rows_of
from tests.leases.rows import TTL, add, later, row, taken, wanted
from tests.store.verbs import ALIAS

LIST = reverse("admin:django_delayed_tasks_resource_changelist")

pytestmark = pytest.mark.usefixtures("db", "frozen")


def names(response: Any) -> list[str]:
    return [cells["name"] for cells in rows_of(response)]


def act(client: Client, action: str, *chosen: str, page: Any = None) -> Any:
    """Press the button of an action, on the list as it was shown; say yes if asked."""
    html = (page or client.get(LIST)).content.decode()
    seen = re.findall(r'name="seen" value="([^"]+)"', html)
    keys = [row(name).pk for name in chosen]
    form = {"action": action, "_selected_action": keys, "seen": seen, "index": "0"}
    return confirm(client, LIST, client.post(LIST, form))


def test_who_holds_what_since_when(boss: Client) -> None:
    add("a", "b", "c", "d")
    grant = taken("a")
    Resource.objects.update(host="crawler.example.org", pid=4711)
    resources.quarantine(ALIAS, taken("b"), 10 * TTL)
    resources.enable(ALIAS, wanted("c"), False)
    with later(10):
        resources.renew(ALIAS, [(grant, TTL)])
    with later(13):
        held, aside, disabled, free = rows_of(boss.get(LIST))
    assert held == {
        "name": "a", "pool_": "proxies", "lease": "held", "enabled": "", "holding": "crawler.example.org, 4711",
        "holding.second": held["holding.second"], "heartbeat": "3.00 s ago", "lease.second": held["lease.second"],
    }  # fmt: skip
    assert re.fullmatch(r"since 2031-\d\d-\d\d \d\d:\d\d:00", held["holding.second"])
    assert re.fullmatch(r"until 2031-\d\d-\d\d \d\d:\d\d:\d\d", held["lease.second"])
    assert [aside["lease"], disabled["lease"], free["lease"]] == ["quarantine", "free", "free"]
    assert (aside["holding"], "holding.second" in aside, "lease.second" in free) == ("-", False, False)
    with later(100):
        assert rows_of(boss.get(LIST))[0]["lease"] == "ran out"


def test_a_holder_without_a_time_has_no_since(boss: Client) -> None:
    add("a")
    taken("a")
    Resource.objects.update(host="crawler.example.org", pid=4711, acquired_at=None)
    [held] = rows_of(boss.get(LIST))
    assert (held["holding"], "holding.second" in held) == ("crawler.example.org, 4711", False)


def test_mutexes_are_there_too(boss: Client) -> None:
    add("a")
    with mutex("nightly"):
        assert [cells["pool_"] for cells in rows_of(boss.get(LIST))] == ["mutexes", "proxies"]
        assert names(boss.get(LIST, {"pool": resources.MUTEXES})) == ["nightly"]
    assert names(boss.get(LIST, {"pool": "proxies"})) == ["a"]
    assert names(boss.get(LIST, {"pool": "none"})) == []
    assert names(boss.get(LIST, {"q": "igh"})) == ["nightly"]


def test_one_that_is_kept_after_its_work(boss: Client) -> None:
    with mutex("nightly", at_least=60):
        pass
    [kept] = rows_of(boss.get(LIST))
    assert (kept["lease"], kept["holding"]) == ("kept", f"{socket.gethostname()}, {os.getpid()}")
    with later(60):
        [free] = rows_of(boss.get(LIST))
    assert [free[column] for column in ("lease", "holding", "heartbeat")] == ["free", *"--"]
    assert not {"lease.second", "holding.second"} & set(free)


def test_what_limits_are_made_of_is_hidden(boss: Client) -> None:
    for pool in ("ddt.slots.pay", "ddt.starts.pay", "ddt.slotsmachine", "a", "z"):
        resources.add(ALIAS, WantedResource(pool, "1"))
    assert [cells["pool_"] for cells in rows_of(boss.get(LIST))] == ["a", "ddt.slotsmachine", "z"]
    assert names(boss.get(LIST, {"pool": "ddt.slots.pay"})) == []
    html = boss.get(LIST).content.decode()
    assert "ddt.slots." not in html
    assert "ddt.starts." not in html
    hidden = Resource.objects.get(pool="ddt.slots.pay")
    address = reverse("admin:django_delayed_tasks_resource_change", args=[hidden.pk])
    assert boss.get(address).status_code == 302
    form = {"action": "disable", "_selected_action": [hidden.pk], "seen": f"{hidden.pk}:{hidden.version}"}
    boss.post(LIST, form)
    assert Resource.objects.get(pk=hidden.pk).enabled


def test_hidden_pools_do_not_use_up_those_that_are_offered(boss: Client) -> None:
    Resource.objects.bulk_create(
        Resource(pool=f"ddt.slots.{i:03}", name="1", version=1, busy_before=clock.EPOCH) for i in range(150)
    )
    resources.add(ALIAS, WantedResource("proxies", "1"))
    with CaptureQueriesContext(connection) as context:
        assert "?pool=proxies" in boss.get(LIST).content.decode()
    assert len(context.captured_queries) < 15


def test_statements(boss: Client) -> None:
    add(*map(str, range(50)))
    with CaptureQueriesContext(connection) as context:
        boss.get(LIST)
    asked = [query for query in context.captured_queries if "django_delayed_tasks_" in query["sql"]]
    assert len(asked) == 4  # the page's keys and its rows; the pool, and that there is no other


def test_disable_and_enable(boss: Client) -> None:
    add("a", "b")
    assert messages_of(act(boss, "disable", "a", "b")) == ["2 resources were disabled."]
    assert not row("a").enabled
    assert messages_of(act(boss, "enable", "a")) == ["1 resource was enabled."]
    assert row("a").enabled
    assert not row("b").enabled
    assert [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")] == ["Disabled."] * 2 + ["Enabled."]


def test_release_by_force_of_all_that_match(boss: Client) -> None:
    """Those on other pages are released as they are now."""
    add("a", "b")
    grants = [taken(name) for name in "ab"]
    shown = row("a")
    form = {"action": "release_by_force", "_selected_action": [shown.pk], "seen": f"{shown.pk}:{grants[0].version}"}
    response = confirm(boss, LIST, boss.post(LIST, {**form, "select_across": "1", "index": "0"}))
    assert messages_of(response) == ["2 resources were released."]


def select_all(client: Client, action: str) -> Any:
    """Select one of the resources, then all that match, and start an action."""
    [shown] = Resource.objects.order_by("pk")[:1]
    form = {"action": action, "_selected_action": [shown.pk], "seen": f"{shown.pk}:{shown.version}"}
    return client.post(LIST, {**form, "select_across": "1", "index": "0"})


@pytest.mark.per_database
@pytest.mark.parametrize(
    ("action", "fields", "done"),
    [
        ("disable", {"enabled": False}, "disabled"),
        ("enable", {"enabled": True}, "enabled"),
        ("release_by_force", {"holder": ""}, "released"),
    ],
)
def test_an_action_on_all_that_match_changes_all_of_them(
    boss: Client, monkeypatch: pytest.MonkeyPatch, action: str, fields: dict[str, Any], done: str
) -> None:
    monkeypatch.setattr(row_actions, "PORTION", 10)
    held: dict[str, Any] = {"busy_before": clock.host_now() + TTL, "holder": "me", "enabled": action != "enable"}
    Resource.objects.bulk_create(Resource(pool="p", name=f"{i:05}", version=i, **held) for i in range(25))
    asked = select_all(boss, action)
    assert "25 are selected." in asked.content.decode()
    assert not Resource.objects.filter(**fields).exists()
    with CaptureQueriesContext(connection) as context:
        said = messages_of(confirm(boss, LIST, asked))
    assert said == [f"25 resources were {done}."]
    assert Resource.objects.filter(**fields).count() == LogEntry.objects.count() == 25
    updates = [query for query in context.captured_queries if query["sql"].startswith("UPDATE")]
    assert len(updates) == 3  # one for each portion, in one request


def test_of_all_that_match_those_that_changed_since_the_page_was_loaded_are_left(boss: Client) -> None:
    add("a", "b")
    asked = select_all(boss, "release_by_force")
    grants = [taken("a"), taken("b")]
    said = messages_of(confirm(boss, LIST, asked))
    assert said[0] == "1 resource was released."
    assert [resources.is_held(ALIAS, grant) for grant in grants] == [True, False]


def test_release_by_force(boss: Client) -> None:
    add("a", "b")
    grant = taken("a")
    said = messages_of(act(boss, "release_by_force", "a", "b"))
    assert said[0] == "1 resource was released."
    assert said[1].startswith("1 resource was left unchanged: it is free")
    assert not resources.is_held(ALIAS, grant)


def test_force_is_asked_about(boss: Client) -> None:
    add("a")
    grant = taken("a")
    form = {"action": "release_by_force", "_selected_action": [row("a").pk], "seen": f"{row('a').pk}:{grant.version}"}
    assert "Release these resources by force?" in boss.post(LIST, form).content.decode()
    assert resources.is_held(ALIAS, grant)


def test_force_takes_only_what_was_seen(boss: Client) -> None:
    add("a")
    old = taken("a")
    page = boss.get(LIST)
    resources.release(ALIAS, old)
    new = taken("a", "you")
    assert "left unchanged" in messages_of(act(boss, "release_by_force", "a", page=page))[0]
    assert resources.is_held(ALIAS, new)


def test_page(boss: Client) -> None:
    resources.add(ALIAS, wanted("a"), {"address": "a.example.org", "password": "hunter2"})
    address = reverse("admin:django_delayed_tasks_resource_change", args=[row("a").pk])
    with override_settings(DELAYED_TASKS={"REDACT": ("password",)}):
        html = boss.get(address).content.decode()
    assert "a.example.org" in html
    assert "hunter2" not in html
    assert boss.post(address, {"name": "b"}).status_code == 403


@pytest.mark.parametrize(("permissions", "may"), [(["view"], False), (["view", "change"], True)])
def test_permissions(permissions: list[str], may: bool) -> None:
    add("a")
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=[f"{name}_resource" for name in permissions]))
    client = Client()
    client.force_login(user)
    act(client, "disable", "a")
    assert row("a").enabled is not may
    assert client.get(f"{LIST}add/").status_code == 403
    assert client.get(reverse("admin:django_delayed_tasks_resource_delete", args=[row("a").pk])).status_code == 403


@pytest.mark.parametrize("query", ["payload__a=1", "payload__startswith=a", "state__a=1", "holder=x"])
def test_data_cannot_be_guessed_by_lookups(boss: Client, query: str) -> None:
    assert boss.get(f"{LIST}?{query}").status_code in (302, 400)
