"""The overview: what it shows, to whom, as a page, as a fragment of it and as JSON."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_delayed_tasks import pause_queue
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.models import Overview, Resource, Task
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from django_delayed_tasks.stats import backlogs, findings
from django_delayed_tasks.store.claiming import waiting
from tests.admin.pages import text_of
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, list_of, new_task, task
from tests.stats.fills import ended

PAGE = list_of("overview")
JSON = reverse("admin:django_delayed_tasks_overview_json")
PROBLEMS = reverse("admin:django_delayed_tasks_overview_problems")
HOSTILE = "<script>alert(1)</script>\"'&"

pytestmark = pytest.mark.usefixtures("frozen")


def section(html: str, name: str) -> str:
    """The text of a section of the page, words separated by one space."""
    found = re.search(rf'<section id="ddt-{name}".*?</section>', html, re.DOTALL)
    assert found, name
    return " ".join(text_of(re.sub(r"<title>.*?</title>", "", found[0], flags=re.DOTALL).replace("<", " <")).split())


def shown(client: Client, name: str, **query: str) -> str:
    response = client.get(PAGE, query)
    assert response.status_code == 200
    return section(response.content.decode(), name)


def fill() -> None:
    """Something to see in each section."""
    owner = executor("web1", queues=["shop"], codes=[CODE])
    task("late", NOW - 5 * MINUTE, claim_at=NOW - 5 * MINUTE, queue="mail")
    task("soon", NOW + 10 * MINUTE, queue="shop")
    task("nightly", NOW + 2 * HOUR, queue="shop", trigger="Interval(hours=3)")
    task("runs", status=TaskStatus.RUNNING, update_time=NOW - MINUTE, executor=owner.pk, progress_fraction=0.5)
    task("failed", status=TaskStatus.FAILED)
    ended(20, NOW - 5 * MINUTE)
    ended(3, NOW - 3 * MINUTE, outcome=RunOutcome.FAILED, error="shop.Declined")
    Resource.objects.create(pool="gateways", name="a", busy_before=NOW + HOUR, version=1)


class TestShows:
    def test_an_empty_database(self, boss: Client) -> None:
        html = boss.get(PAGE).content.decode()
        assert "No executor is alive." in section(html, "problems")
        assert "No task becomes due in this time." in section(html, "forecast")
        assert "No run has gone wrong in the last day." in section(html, "failing")
        assert "No task is running." in section(html, "running")
        assert "There are no pools and no mutexes." in section(html, "pools")

    def test_everything(self, boss: Client) -> None:
        fill()
        html = boss.get(PAGE).content.decode()
        assert "The queue “mail” has no executor (1 task due, the first for 5 min)." in section(html, "problems")
        tiles = section(html, "tiles")
        assert "Executors alive 1 1 task on 8 threads" in tiles
        assert "Late 5 min 1 task, since 11:25:00" in tiles
        assert "Failed in the last hour 3 13.0 % of the runs" in tiles
        assert "Failed tasks 1 waits for a decision" in tiles
        assert "Running 1 the longest for 1 min" in tiles
        assert "Done in the last hour 20" in tiles
        assert f"{CODE} shop.Declined 3 3 0 3" in section(html, "failing")
        queues = section(html, "queues")
        assert "mail no executor 5 min, since 11:25:00 1 0 due 0" in queues
        assert "shop web1 – 0 0 in 10 min 0" in queues
        assert f"{CODE} runs 1 min web1 50 %" in section(html, "running")
        assert "gateways 1 0 0 0" in section(html, "pools")
        assert f"{CODE} 23 3" in section(html, "codes")

    @pytest.mark.parametrize(
        ("late", "labels"),
        [
            ((0.3, 7_000), ["3 h", "1 h", "10 min", "1 min", "10 s", "1 s"]),
            ((0.02, 0.3), ["1 s", "100 ms"]),
            ((90, 400_000), ["10 d", "1 d", "3 h", "1 h", "10 min"]),
            ((2, 2), ["10 s"]),
            ((0.002, 7_000), ["3 h", "1 h", "10 min", "1 min", "10 s", "1 s"]),
        ],
    )
    def test_the_axis_of_lateness_has_round_times(
        self, boss: Client, late: tuple[float, float], labels: list[str]
    ) -> None:
        """A label such as 16 min 40 s is wider than its place."""
        for minute, seconds in enumerate(late):
            ended(1, NOW - (minute + 2) * MINUTE, late=seconds)
        found = re.search(r'<section id="ddt-lateness".*?</section>', boss.get(PAGE).content.decode(), re.DOTALL)
        assert found
        assert re.findall(r'<text class="ddt-axis" x="-8"[^>]*>([^<]*)</text>', found[0]) == labels

    def test_all_codes_are_one_click_away(self, boss: Client) -> None:
        for number in range(15):
            ended(1, code=f"code{number:02}")
        html = boss.get(PAGE).content.decode()
        assert "code14" not in section(html, "codes")
        link = re.search(r'<a href="([^"]*)">3 more codes</a>', html)
        assert link
        everything = boss.get(PAGE + unescape(link[1])).content.decode()
        assert "code14" in section(everything, "codes")
        assert "more code" not in section(everything, "codes")
        assert f'<a href="{list_of("taskrun")}?code=code14"><bdi>code14</bdi></a>' in everything

    def test_numbers_have_separators(self, boss: Client) -> None:
        ended(1200, NOW - MINUTE, outcome=RunOutcome.FAILED, error="builtins.ValueError", late=None, took=None)
        html = boss.get(PAGE).content.decode()
        assert f"{CODE} ValueError 1,200 1,200 0 1,200" in section(html, "failing")
        assert f"{CODE} 1,200 1,200" in section(html, "codes")

    def test_failed_tasks_wait(self, boss: Client) -> None:
        for number in range(2):
            task(f"{number}", status=TaskStatus.FAILED)
        assert "Failed tasks 2 wait for a decision" in shown(boss, "tiles")

    def test_forecast_as_a_picture_and_as_a_table(self, boss: Client) -> None:
        fill()
        html = boss.get(PAGE).content.decode()
        assert f"<title>11:40\n{CODE}: 1</title>" in html
        assert "11:40 1" in section(html, "forecast")
        assert "Every pending task was read just now" in section(html, "forecast")
        assert f"{CODE} 9" in shown(boss, "forecast", ahead="day")

    def test_the_busiest_minute(self, boss: Client) -> None:
        ended(120, NOW - MINUTE)
        Task._base_manager.bulk_create(new_task(f"{i}", NOW + 2 * HOUR) for i in range(240))
        take_survey("default")
        unserved = "240 tasks become due at 13:30, but the queue default is paused or has no executor."
        assert unserved in shown(boss, "forecast")
        executor(codes=[CODE])
        text = shown(boss, "forecast")
        assert "240 tasks become due at 13:30; at 2 runs per second, the highest rate of their codes in " in text
        assert "the last day, the last one starts at 13:32:00" in text

    def test_runs_that_were_lost_and_run_again_have_not_failed(self, boss: Client) -> None:
        ended(1200, NOW - MINUTE, outcome=RunOutcome.LOST, error="its executor died or lost its lease")
        html = boss.get(PAGE).content.decode()
        assert "Failed in the last hour 0 of 1,200 runs" in section(html, "tiles")
        assert f"{CODE} its executor died or lost its lease 1,200 1,200 1,200 0" in section(html, "failing")
        assert f"{CODE} 1,200 0" in section(html, "codes")
        assert "lost: 1,200" in html
        assert f"{list_of('taskrun')}?code={CODE}&amp;outcome={RunOutcome.LOST.value}" in html

    def test_more_than_was_counted(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (waiting, backlogs, findings):
            monkeypatch.setattr(module, "COUNTED", 10)
        for number in range(14):
            for status in (TaskStatus.PENDING, TaskStatus.FAILED):
                task(f"{status} {number}", status=status)
        html = boss.get(PAGE).content.decode()
        assert "> 10 tasks are pending" in section(html, "now")
        assert "Failed tasks > 10" in section(html, "tiles")

    def test_lines_of_lateness(self, boss: Client) -> None:
        ended(9, NOW - 4 * MINUTE, late=0.02)
        ended(9, NOW - 3 * MINUTE, late=2)
        html = boss.get(PAGE).content.decode()
        assert len(re.findall("<polyline", html)) == 2
        assert "11:26 20 ms 20 ms" in section(html, "lateness")

    def test_bars_of_run_times_have_one_scale(self, boss: Client) -> None:
        ended(15, NOW - 4 * MINUTE, code="slow", took=1.0)
        ended(5, NOW - 4 * MINUTE, code="slow", took=2.0)
        ended(20, NOW - 4 * MINUTE, code="quick", took=0.5)
        html = boss.get(PAGE).content.decode().partition('id="ddt-codes"')[2]
        row = r'(?s)<a[^>]*><bdi>(\w+)</bdi></a>.*?<rect class="ddt-c{}" width="([\d.]+)%"'
        longest, median = (dict(re.findall(row.format(color), html)) for color in (1, 0))
        assert longest["slow"] == "100.00"
        assert 20 < float(longest["quick"]) < 35
        assert 30 < float(median["slow"]) < 70
        assert 0 < float(median["quick"]) <= float(longest["quick"])

    @pytest.mark.parametrize("span", ["hour", "day", "week", "nonsense"])
    @pytest.mark.parametrize("ahead", ["hour", "day", "month"])
    def test_spans(self, boss: Client, span: str, ahead: str) -> None:
        fill()
        html = boss.get(PAGE, {"span": span, "ahead": ahead}).content.decode()
        assert html.count('aria-current="true"') == 4
        bars = {"hour": 60, "day": 25, "month": 31}[ahead]
        forecast = re.search(r'<section id="ddt-forecast".*?</section>', html, re.DOTALL)
        assert forecast
        assert forecast[0].count('class="ddt-hover"') == bars

    def test_a_paused_queue(self, boss: Client) -> None:
        pause_queue("mail")
        assert "mail paused since 11:30:00" in shown(boss, "queues")

    def test_names_are_escaped(self, boss: Client) -> None:
        task(queue=HOSTILE[:50], biz_code=HOSTILE[:50], biz_num=HOSTILE, status=TaskStatus.RUNNING)
        task("2", NOW + MINUTE, queue=HOSTILE[:50], biz_code=HOSTILE[:50])
        executor(HOSTILE, host=HOSTILE, queues=[HOSTILE])
        ended(code=HOSTILE[:50], outcome=RunOutcome.FAILED, error=HOSTILE)
        Resource.objects.create(pool=HOSTILE[:50], name="a", busy_before=NOW, version=1)
        html = boss.get(PAGE).content.decode()
        assert "<script>alert" not in html

    def test_works_under_a_strict_policy(self, boss: Client) -> None:
        """No inline script, no style attribute, nothing from elsewhere."""
        fill()
        html = boss.get(PAGE, {"fragment": "1"}).content.decode()
        assert not re.search(r"<script|\sstyle=|\son\w+=|<style|https?://", html)
        page = boss.get(PAGE).content.decode()
        assert "<style" not in page
        assert re.findall(r"<script[^>]*overview[^>]*></script>", page)


class TestFragmentAndJson:
    def test_the_fragment_is_a_part_of_the_page(self, boss: Client) -> None:
        fill()
        page, fragment = (boss.get(PAGE, query).content.decode() for query in ({}, {"fragment": "1"}))
        assert "<html" not in fragment
        assert fragment.strip() in page
        ids = re.findall(r'<section id="([^"]+)"', page)
        assert len(ids) == len(set(ids)) > 8

    @pytest.mark.parametrize("address", [JSON, f"{PAGE}?format=json"])
    def test_json_has_the_same(self, boss: Client, address: str) -> None:
        fill()
        data = boss.get(address).json()
        assert data["now"] == NOW.isoformat()
        assert [problem["kind"] for problem in data["problems"]] == ["queue_unserved"]
        assert data["executors"][0]["claimed"] == 1
        assert data["last_hour"]["outcomes"] == {"done": 20, "failed": 3}
        assert sum(sum(bar["codes"].values()) for bar in data["forecast"]["day"]) == 9
        assert len(boss.get(JSON, {"span": "day"}).json()["series"]) == 24

    def test_neither_is_cached(self, boss: Client) -> None:
        for address in (PAGE, JSON):
            assert "no-store" in boss.get(address)["Cache-Control"]


@pytest.mark.parametrize(("names", "may"), [(["view_overview"], True), (["view_task", "change_task"], False)])
def test_permissions(db: None, names: list[str], may: bool) -> None:
    executor("secret name", queues=["none"])
    task("1", NOW - HOUR, claim_at=NOW - HOUR)
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    for address in (PAGE, f"{PAGE}?fragment=1", JSON, f"{PAGE}?format=json", PROBLEMS):
        assert client.get(address).status_code == (200 if may else 403)
    if not may:
        assert banner_of(client.get(list_of("task"))) == ""


def test_a_visitor_is_asked_to_log_in(db: None) -> None:
    assert [Client().get(address).status_code for address in (PAGE, JSON, PROBLEMS)] == [302] * 3


def test_it_is_the_first_of_the_menu(boss: Client) -> None:
    html = boss.get(reverse("admin:app_list", args=["django_delayed_tasks"])).content.decode()
    names = re.findall(r'<tr class="model-(\w+)', html)
    assert names[0] == "overview"


@pytest.mark.parametrize("model", ["task", "taskrun", "executor", "pausedqueue", "resource"])
def test_other_pages_have_a_place_for_what_is_wrong(boss: Client, model: str) -> None:
    assert banner_of(boss.get(list_of(model)))


def test_so_do_the_pages_of_a_task_and_of_the_app(boss: Client) -> None:
    page = reverse("admin:django_delayed_tasks_task_change", args=[task().pk])
    for address in (page, reverse("admin:app_list", args=["django_delayed_tasks"])):
        assert banner_of(boss.get(address))


def banner_of(response: Any) -> str:
    """Return the address that the banner of a page is fetched from; empty if there is none."""
    html = response.content.decode()
    found = re.search(r'id="ddt-banner" data-address="([^"]+)"', html)
    assert bool(found) == ("banner.js" in html)
    return found[1] if found else ""


def test_the_banner_says_what_is_wrong(boss: Client) -> None:
    address = banner_of(boss.get(list_of("task")))
    assert "No executor is alive." in boss.get(address).content.decode()
    executor(codes=[CODE])
    assert boss.get(address).content.decode().strip() == ""


def test_the_banner_names_the_first_problems_and_counts_the_others(boss: Client) -> None:
    executor(queues=["none"], codes=[CODE])
    for number in range(5):
        task(f"{number}", NOW - MINUTE, claim_at=NOW - MINUTE, queue=f"q{number}")
    html = boss.get(PROBLEMS).content.decode()
    assert html.count('class="ddt-problem ') == 3
    assert "2 more problems." in html


def test_the_banner_names_one_problem_of_each_kind_first(boss: Client) -> None:
    for name in ("web1", "web2", "web3"):
        executor(name, alive=None, status=ExecutorStatus.CRASHED)
    task("held", NOW - MINUTE, claim_at=NOW - MINUTE, queue="crawl")
    pause_queue("crawl")
    text = " ".join(text_of(boss.get(PROBLEMS).content.decode()).split())
    assert re.findall(r"No executor|crashed|is paused", text) == ["No executor", "crashed", "is paused"]
    of_page = shown(boss, "problems")
    assert (of_page.count("crashed"), of_page.count("See its log")) == (3, 1)  # the same advice, once


def leads(client: Client) -> list[tuple[str, str]]:
    """Return the addresses that the problems lead to, and what their links say."""
    found = re.findall(r'<a href="([^"]+)">(\w+)</a></li>', client.get(PROBLEMS).content.decode())
    return [(unescape(address), text) for address, text in found]


def test_a_problem_leads_to_the_page_where_it_is_seen(boss: Client) -> None:
    assert leads(boss) == [(list_of("executor"), "Executors")]
    executor(queues=["crawl"], codes=[CODE])
    task("late", NOW - MINUTE, claim_at=NOW - MINUTE, queue=HOSTILE)
    task("held", NOW - MINUTE, claim_at=NOW - MINUTE, queue="crawl")
    pause_queue("crawl")
    [(tasks, first), (queues, second)] = leads(boss)
    assert (first, queues, second) == ("Tasks", list_of("pausedqueue"), "Queues")
    assert [row.biz_num for row in boss.get(tasks).context["cl"].result_list] == ["late"]


def test_a_page_of_one_overview_leads_to_it(boss: Client) -> None:
    take_survey("default")
    page = reverse("admin:django_delayed_tasks_overview_change", args=[Overview.objects.get().pk])
    response: Any = boss.get(page)
    assert (response.status_code, response["Location"]) == (302, PAGE)


def test_statements_do_not_depend_on_what_there_is(boss: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as context:
            assert boss.get(PAGE).status_code == 200
        return len(context)

    fill()
    few = cost()
    Task._base_manager.bulk_create(new_task(f"{i}", NOW + i * MINUTE, queue=f"q{i % 40}") for i in range(3000))
    for number in range(30):
        ended(5, NOW - number * MINUTE, code=f"code {number}")
        executor(f"other {number}")
    take_survey("default")
    assert few <= cost() <= few + 1 < 50, "one for each code that has no handler"
