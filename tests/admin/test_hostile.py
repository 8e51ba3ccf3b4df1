"""Hostile texts in every column, and hostile addresses and forms: escaped, hidden, refused; never a 500."""

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client, override_settings

from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin import rows
from tests.admin.pages import inputs_of, submit
from tests.admin.rows import NOW, list_of, page_of

SCRIPT = "<script>alert(1)</script>"
QUOTES = "\"'><img src=x onerror=alert(1)>"
TEMPLATE = "{{ 7|add:7 }}{% include 'x' %}%s%(x)d"
DATA = {SCRIPT: [QUOTES, {"</pre><b>": TEMPLATE}]}
NAME = f"{SCRIPT}{QUOTES}"


def everything() -> list[Task | TaskRun | Executor]:
    """Rows with hostile texts wherever a text can stand."""
    owner = rows.executor(NAME, host=NAME, queues=[SCRIPT], codes=[QUOTES])
    fields: dict[str, Any] = {
        "biz_ext": DATA,
        "biz_code": f"{SCRIPT}"[:50],
        "queue": QUOTES[:50],
        "last_error": f"{SCRIPT}\n{QUOTES}",
        "trigger": f"Cron({QUOTES}{SCRIPT}",
    }
    deferred: dict[str, Any] = {
        "deferred_when": NOW,
        "deferred_biz_ext": DATA,
        "deferred_queue": QUOTES[:50],
        "deferred_priority": 1,
        "deferred_trigger_text": NAME,
    }
    progress: dict[str, Any] = {"progress_fraction": 0.5, "progress_note": NAME, "progress_at": NOW}
    return [
        owner,
        rows.task(SCRIPT, **fields),
        rows.task(QUOTES, **fields, status=TaskStatus.FAILED),
        rows.task(TEMPLATE, **fields, **deferred, **progress, status=TaskStatus.RUNNING, executor=owner.pk),
        rows.run(
            SCRIPT, RunOutcome.FAILED, result=DATA, error=f"{QUOTES}\n{SCRIPT}", biz_code=SCRIPT, executor=owner.pk
        ),
    ]


def pages(found: list[Task | TaskRun | Executor]) -> list[str]:
    lists = [list_of(model) for model in ("task", "taskrun", "executor")]
    confirmations = [page_of(row, "delete") for row in found if isinstance(row, Task)]
    searches = [f"{list_of('task')}?q=%3Cscript%3E&code=%3Cscript%3E", f"{list_of('taskrun')}?q={QUOTES}"]
    return [*lists, *map(page_of, found), *confirmations, *searches]


@pytest.mark.usefixtures("frozen")
def test_texts_are_escaped_in_every_view(boss: Client) -> None:
    for address in pages(everything()):
        response = boss.get(address, follow=True)
        html = response.content.decode()
        assert response.status_code == 200, address
        for hostile in ("<script>alert", "<img src=x", "</pre><b>", "&lt;script&gt;alert(1)</script>"):
            assert hostile not in html, (address, hostile)
    html = boss.get(page_of(Task.objects.get(biz_num=TEMPLATE))).content.decode()
    assert "{{ 7|add:7 }}" in unescape(html)
    assert "&lt;/pre&gt;&lt;b&gt;" in html


@pytest.mark.usefixtures("frozen")
def test_what_people_did_is_escaped(boss: Client) -> None:
    task = rows.task(SCRIPT, biz_ext=DATA, queue="q")
    response = submit(boss, page_of(task), priority="3")
    assert "<script>alert" not in boss.get(response.url).content.decode()
    assert "<script>alert" not in boss.get(page_of(task, "history")).content.decode()
    boss.post(list_of("task"), {"action": "cancel", "_selected_action": [task.pk], seen.NAME: "1:1"}, follow=True)


SECRET = "s3cret-4711"
HIDDEN = {"user": "Ada", "token": SECRET, "list": [{"Token": [SECRET]}]}


@pytest.mark.usefixtures("frozen")
class TestRedaction:
    @pytest.fixture(autouse=True)
    def names(self) -> Any:
        with override_settings(DELAYED_TASKS={"REDACT": ["token"]}):
            yield

    def test_no_page_shows_it(self, boss: Client) -> None:
        fields: dict[str, Any] = {
            "deferred_when": NOW,
            "deferred_biz_ext": HIDDEN,
            "deferred_queue": "q",
            "deferred_priority": 1,
        }
        waiting = rows.task("1", biz_ext=HIDDEN)
        running = rows.task("2", biz_ext=HIDDEN, status=TaskStatus.RUNNING, **fields)
        run = rows.run("3", result=HIDDEN)
        for address in pages([waiting, running, run]):
            html = boss.get(address, follow=True).content.decode()
            assert SECRET not in html, address
        assert "&quot;user&quot;: &quot;Ada&quot;" in boss.get(page_of(run)).content.decode()

    def test_an_edit_of_other_data_leaves_it(self, boss: Client) -> None:
        task = rows.task(biz_ext=HIDDEN)
        text = inputs_of(boss.get(page_of(task)))["biz_ext"]
        submit(boss, page_of(task), biz_ext=text.replace("Ada", "Grace"))
        task.refresh_from_db()
        assert task.biz_ext == {**HIDDEN, "user": "Grace"}

    def test_a_save_of_something_else_leaves_it(self, boss: Client) -> None:
        task = rows.task(biz_ext=HIDDEN)
        submit(boss, page_of(task), priority="9")
        task.refresh_from_db()
        assert (task.priority, task.biz_ext) == (9, HIDDEN)

    def test_another_trigger_leaves_it(self, boss: Client) -> None:
        task = rows.task(biz_ext=HIDDEN)
        preview = submit(boss, page_of(task), "_preview", trigger_text="Interval(hours=1)")
        assert SECRET not in preview.content.decode()
        submit(boss, page_of(task), trigger_text="Interval(hours=1)")
        task.refresh_from_db()
        assert (task.trigger_text, task.biz_ext) == ("Interval(hours=1)", HIDDEN)

    def test_it_can_be_replaced(self, boss: Client) -> None:
        task = rows.task(biz_ext=HIDDEN)
        text = inputs_of(boss.get(page_of(task)))["biz_ext"]
        submit(boss, page_of(task), biz_ext=re.sub('"token": "[^"]*"', '"token": "new"', text))
        task.refresh_from_db()
        assert task.biz_ext == {**HIDDEN, "token": "new"}

    @pytest.mark.parametrize("data", [{"shown": "******** 1"}, ["******** 1"], {"token": "********"}])
    def test_it_cannot_be_moved_where_it_would_be_seen(self, boss: Client, data: Any) -> None:
        task = rows.task(biz_ext=HIDDEN)
        response = submit(boss, page_of(task), biz_ext=json.dumps(data))
        assert "stands for a hidden value" in unescape(response.content.decode())
        assert SECRET not in response.content.decode()
        task.refresh_from_db()
        assert task.biz_ext == HIDDEN

    def test_an_error_does_not_show_it(self, boss: Client) -> None:
        task = rows.task(biz_ext=HIDDEN)
        text = inputs_of(boss.get(page_of(task)))["biz_ext"]
        response = submit(boss, page_of(task), biz_ext=text.replace('"Ada"', str(10**30)))
        assert "beyond 64 bits" in response.content.decode()
        assert SECRET not in response.content.decode()

    @pytest.mark.parametrize("lookup", ["biz_ext__token", "biz_ext__token__startswith", "biz_ext__icontains"])
    def test_it_cannot_be_guessed_by_filtering(self, boss: Client, lookup: str) -> None:
        rows.task(biz_ext=HIDDEN)
        assert boss.get(list_of("task"), {lookup: "s"}).status_code == 400
        assert boss.get(list_of("taskrun"), {lookup.replace("biz_ext", "result"): "s"}).status_code == 400


ADDRESSES = [
    "?q=%00", "?code=%00", "?queue=a%00", "?biz_code__exact=%00", "?%00=1", "?p=99999999999999999999", "?p=-1", "?p=x",
    "?o=99999999999999999999", "?o=x.-.1", "?id__in=1,x", "?status__exact=99999999999999999999", "?priority__gt=1e9",
    "?when__gte=x", "?when__year=99999999", "?biz_num__regex=(((", "?error__contains=a", "?last_error__contains=a",
    "?executor=99999999999999999999999", "?executor=-1", "?id__exact=" + "9" * 5000, "?due=x", "?outcome=99",
    "?q=" + "%27%22;--" * 50, "?_changelist_filters=%00", "?q=%ED%A0%80", "?id__isnull=maybe",
]  # fmt: skip


@pytest.mark.parametrize("model", ["task", "taskrun", "executor"])
def test_addresses(boss: Client, model: str) -> None:
    rows.task()
    answers = {address: boss.get(list_of(model) + address, follow=True) for address in ADDRESSES}
    assert not {address for address, response in answers.items() if response.status_code not in (200, 400)}


@pytest.mark.parametrize("model", ["task", "taskrun", "executor"])
def test_pages_of_no_task(boss: Client, model: str) -> None:
    for key in ("9" * 20, "9" * 5000, "-1", "x", "_00", "%00", "1.0", "''"):
        for view in ("change/", "history/", "delete/"):
            assert boss.get(f"{list_of(model)}{key}/{view}", follow=True).status_code in (200, 403, 404), key


MARKS = ["1:" + "9" * 30, "9" * 30 + ":1", "1:" + "9" * 5000, ":", "1:-5", "x", "1:1:1", "\0", "1:\u0661", ""]


def test_marks_of_what_was_seen(boss: Client) -> None:
    """What says which version was seen is the browser's word: nothing is written for a wrong one."""
    task = rows.task()
    for mark in MARKS:
        for action in ("run_now", "cancel", "retry_failed"):
            form = {"action": action, "_selected_action": [str(task.pk)], seen.NAME: mark}
            assert boss.post(list_of("task"), form, follow=True).status_code == 200, mark
        assert boss.post(page_of(task), {"_run_now": "1", seen.NAME: mark}, follow=True).status_code == 200
        assert boss.post(page_of(task, "delete"), {"post": "yes", seen.NAME: mark}, follow=True).status_code == 200
    assert Task.objects.get().version == task.version


TEXTS = [
    "[" * 100_000,
    "1" * 5000,
    "1e999",
    "NaN",
    '"\\ud800"',
    '"\\u0000"',
    "{" * 50,
    str(2**64),
    '"' + "x" * 70_000 + '"',
]


def test_data_is_checked_as_add_task_checks_it(boss: Client) -> None:
    task = rows.task(biz_ext={"a": 1})
    for text in TEXTS:
        response = submit(boss, page_of(task), biz_ext=text)
        assert response.status_code == 200, text[:50]
        assert "errorlist" in response.content.decode(), text[:50]
    task.refresh_from_db()
    assert task.biz_ext == {"a": 1}


INPUTS = [
    ("queue", "\0"), ("queue", " "), ("queue", "x" * 51), ("priority", "101"), ("priority", "9" * 5000),
    ("priority", "1e1"), ("when_0", "0001-01-01"), ("when_0", "99999-01-01"), ("when_1", "25:00"),
]  # fmt: skip


def test_other_inputs_are_too(boss: Client) -> None:
    task = rows.task()
    for field, value in INPUTS:
        response = submit(boss, page_of(task), **{field: value})
        assert response.status_code == 200, (field, value[:50])
        assert "errorlist" in response.content.decode(), (field, value[:50])
    assert Task.objects.get().version == task.version


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("text", [nested(3000), "[" * 3000, f"[{nested(28)},{'1,' * 30_000}1]"])
def test_data_that_is_refused_is_shown_as_it_was_typed(boss: Client, text: str) -> None:
    """Indented, it would be megabytes: the page grows with the square of the depth."""
    task = rows.task(biz_ext={"a": 1})
    for page in (page_of(task), page_of(task).replace(f"{task.pk}/change", "add")):
        answer = boss.post(page, {"biz_ext": text, "priority": "x", "seen": seen.mark(task)})
        assert answer.status_code == 200
        assert text in unescape(answer.content.decode())
        assert len(answer.content) < 8 * len(text) + 100_000


def test_data_that_is_too_long_is_refused_before_it_is_parsed(boss: Client) -> None:
    task = rows.task(biz_ext={"a": 1})
    for text in ("[" * 70_000, "1" * 70_000):
        answer = boss.post(page_of(task), {"biz_ext": text, "priority": "0", "seen": seen.mark(task)})
        assert "70,000 characters without white space, 65,536 at most" in answer.content.decode()
    submit(boss, page_of(task), biz_ext=f"[{' ' * 70_000}1]")
    task.refresh_from_db()
    assert task.biz_ext == [1]


def test_stored_data_that_would_be_long_when_indented_is_shown_on_one_line() -> None:
    deep = json.loads(nested(900))
    for value in (deep, [[[[[1] * 200_000]]]]):
        assert len(columns.pretty_json(value)) <= columns.MAX_INDENTED
    assert columns.pretty_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'
