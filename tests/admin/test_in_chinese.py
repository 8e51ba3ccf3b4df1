"""Pages in Simplified Chinese: no English words are left, apart from names and values."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any, Final

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.utils import translation

from django_delayed_tasks import pause_queue
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin.pages import messages_of, text_of
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, TRACEBACK, executor, list_of, page_of, run, task
from tests.stats.fills import ended

NAMES: Final = {"Django", "JSON", "UTC", "CEST"}
"""Names that are the same in Chinese."""
CODE_IN_TEXT: Final = {"keep", "data", "manage", "py", "starttask", "queues", "exclude", "cron"}
VALUES: Final = {"test", "shop", "mail", "default", "web", "example", "org", "boss", "gateways", "Declined"}
OTHER_APPS: Final = {"Shop", "Orders", "Products", "Promotions", "Select", "an", "option", "Search", "True"}
"""What another app of the tests is called in the menu, and what Django's own catalog leaves in English."""
"""What is in the rows."""
OF_DJANGO: Final = ("Model name", "Add link", "Change or view list link")
"""Texts on Django's own pages, which its catalog has since 6.0."""
ATTRIBUTES: Final = ("title", "aria-label", "placeholder", "data-label", "data-paused", "data-lost", "alt")

pytestmark = pytest.mark.usefixtures("frozen", "in_chinese")


@pytest.fixture
def in_chinese() -> Iterator[None]:
    with translation.override("zh-hans"):
        yield


def english(html: str, *allowed: str) -> list[str]:
    """The English words that a person would see, or hear from a screen reader."""
    html = re.sub(r"<(script|style|textarea|code|pre)\b.*?</\1>", " ", html, flags=re.DOTALL)
    said = re.findall(rf'\b(?:{"|".join(ATTRIBUTES)})="([^"]*)"', html)
    said += re.findall(r'<input type="submit" value="([^"]*)"', html)
    words = re.findall(r"[A-Za-z]{2,}", unescape(" ".join([text_of(html.replace("<", " <")), *said])))
    left_in_english = " ".join(text for text in OF_DJANGO if translation.gettext(text) == text).split()
    return sorted(set(words) - NAMES - CODE_IN_TEXT - VALUES - OTHER_APPS - {*left_in_english, *allowed})


def shown(client: Client, address: str) -> str:
    response = client.get(address, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def fill() -> None:
    """Something to see on each page."""
    owner = executor("web1", queues=["shop"], exclude_queues=["mail"], codes=[CODE])
    executor("web2", alive=None, status=3)
    task("1", NOW - 5 * MINUTE, claim_at=NOW - 5 * MINUTE, queue="mail")
    task("2", NOW + 10 * MINUTE, queue="shop")
    task("3", NOW + 2 * HOUR, queue="shop", trigger="Interval(hours=3)")
    task("4", status=TaskStatus.RUNNING, update_time=NOW - MINUTE, executor=owner.pk, progress_fraction=0.5)
    task("5", status=TaskStatus.FAILED, last_error=TRACEBACK, attempts=3)
    task("6", status=TaskStatus.PAUSED)
    run("4", executor=owner.pk)
    run("5", RunOutcome.FAILED)
    ended(20, NOW - 5 * MINUTE)
    ended(3, NOW - 3 * MINUTE, outcome=RunOutcome.FAILED, error="shop.Declined")
    Resource.objects.create(pool="gateways", name="1", busy_before=NOW + HOUR, version=1)


def test_overview(boss: Client) -> None:
    fill()
    pause_queue("mail")
    html = shown(boss, list_of("overview"))
    assert "存活的执行器" in html
    assert english(html) == []


def test_an_empty_overview(boss: Client) -> None:
    html = shown(boss, list_of("overview"))
    assert "没有存活的执行器。" in html
    assert english(html) == []


@pytest.mark.parametrize("name", ["task", "taskrun", "executor", "resource", "pausedqueue"])
def test_lists(boss: Client, name: str) -> None:
    fill()
    html = shown(boss, list_of(name))
    assert english(html, "ValueError", "no", "never") == []


@pytest.mark.parametrize("number", ["1", "2", "3", "4", "5", "6"])
def test_pages_of_tasks(boss: Client, number: str) -> None:
    fill()
    html = shown(boss, page_of(Task.objects.get(biz_num=number)))
    assert (
        english(html, "Cron", "tz", "Europe", "Berlin", "daily", "Interval", "minutes", "Once", "ValueError", "T") == []
    )


def test_the_page_of_a_run_and_of_an_executor(boss: Client) -> None:
    fill()
    row = run("7")
    assert english(shown(boss, page_of(row)), "keep", "data") == []  # the name of the option
    assert english(shown(boss, page_of(executor("web3")))) == []


def test_sentences_have_their_numbers_where_chinese_has_them(boss: Client) -> None:
    fill()
    sentences = {
        "1": "2031-05-17 11:25:00 已到期，延迟 5 分钟：没有执行器服务其队列。",
        "2": "等待至 2031-05-17 11:40:00，即 10 分钟后。",
        "5": "经过 3 次尝试，于 1 小时前失败。",
    }
    for number, sentence in sentences.items():
        assert sentence in shown(boss, page_of(Task.objects.get(biz_num=number)))


@pytest.mark.parametrize("action", ["run_now", "postpone", "retry_failed", "pause", "resume", "cancel"])
def test_questions_and_messages_of_actions(boss: Client, action: str) -> None:
    rows = [task("1"), task("2", status=TaskStatus.FAILED)]
    asked: dict[str, Any] = {
        "action": action,
        ACTION_CHECKBOX_NAME: [row.pk for row in rows],
        "seen": [f"{row.pk}:{row.version}" for row in rows],
    }
    response = boss.post(list_of("task"), asked)
    if response.status_code == 200:
        assert english(response.content.decode()) == []
        response = boss.post(list_of("task"), asked | {"confirmed": "1"})
    assert english(" ".join(messages_of(response))) == []
    assert messages_of(response)
