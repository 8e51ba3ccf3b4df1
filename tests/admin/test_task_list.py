"""The list of tasks: what it shows, finds and filters."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils.connection import ConnectionDoesNotExist

from django_delayed_tasks.admin import TaskAdmin
from django_delayed_tasks.admin.lists import changelist, filters
from django_delayed_tasks.admin.tasks import list as task_list
from django_delayed_tasks.conf import settings
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.backlogs import MAX_QUEUES
from django_delayed_tasks.store.claiming.waiting import read_agenda
from tests.admin.actions import do
from tests.admin.pages import footer_of, numbers_of, rows_of
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, OTHER, TRACEBACK, executor, list_of, new_task, task

LIST = list_of("task")

pytestmark = [pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


class TestColumns:
    def test_pending(self, boss: Client) -> None:
        task("A-1", NOW + 2 * HOUR + 5 * MINUTE, queue="shop", priority=7)
        [row] = rows_of(boss.get(LIST))
        assert row == {
            "number": "A-1", "code": CODE, "state": "pending", "when_.second": "in 2 h 5 min",
            "when_": "2031-05-17 13:35:00",  # Berlin
            "queue_": "shop", "priority_": "7",
        }  # fmt: skip

    def test_running(self, boss: Client) -> None:
        owner = executor("web/1")
        task(status=TaskStatus.RUNNING, executor=owner.pk, attempts=2)
        [row] = rows_of(boss.get(LIST))
        assert (row["state"], row["attempts_"], row["executor_"]) == ("running", "2", "web/1")

    def test_running_on_an_executor_whose_row_is_gone(self, boss: Client) -> None:
        task(status=TaskStatus.RUNNING, executor=77)
        assert rows_of(boss.get(LIST))[0]["executor_"] == "-"

    def test_asked_to_stop(self, boss: Client) -> None:
        task(status=TaskStatus.RUNNING, executor=77, cancel_requested_at=NOW)
        assert rows_of(boss.get(LIST))[0]["state"] == "stopping"

    def test_failed_shows_the_end_of_the_error_escaped(self, boss: Client) -> None:
        task(status=TaskStatus.FAILED, last_error="x" * 9000 + "\n" + TRACEBACK + "\n")
        response = boss.get(LIST)
        assert rows_of(response)[0]["number.second"] == "ValueError: <b>no & never</b>"
        assert b"<b>no" not in response.content

    @pytest.mark.parametrize(
        ("away", "text"),
        [
            (timedelta(days=3, hours=4, minutes=5), "in 3 d 4 h"),
            (timedelta(days=3, seconds=5), "in 3 d"),
            (timedelta(seconds=61), "in 1 min 1 s"),
            (timedelta(seconds=0.25), "in 0.25 s"),
            (-timedelta(seconds=12), "late by 12 s"),
            (-timedelta(hours=30), "late by 1 d 6 h"),
        ],
    )
    def test_due(self, boss: Client, away: timedelta, text: str) -> None:
        task(when=NOW + away, claim_at=NOW + away)
        assert rows_of(boss.get(LIST))[0]["when_.second"] == text

    def test_due_is_by_the_next_attempt(self, boss: Client) -> None:
        task(when=NOW - HOUR, claim_at=NOW + 2 * MINUTE)
        [row] = rows_of(boss.get(LIST))
        assert (row["when_"], row["when_.second"]) == ("2031-05-17 11:32:00", "in 2 min")


class TestOrder:
    EXPECTED = (
        "late 5 h", "late 4 h", "due", "failed 1 h ago", "failed 2 h ago", "failed 3 h ago", "running", "in 1 h",
        "in 2 h", "in 3 h", "paused",
    )  # fmt: skip

    @pytest.fixture
    def of_every_kind(self, db: None) -> None:
        task("paused", status=TaskStatus.PAUSED)
        task("running", status=TaskStatus.RUNNING)
        for hours, queue, priority in ((3, "mail", 0), (1, "shop", 0), (2, "mail", 5)):
            task(f"in {hours} h", NOW + hours * HOUR, queue=queue, priority=priority)
            task(
                f"failed {hours} h ago", status=TaskStatus.FAILED, claim_at=NOW - hours * HOUR, queue=queue,
                priority=priority,
            )  # fmt: skip
        for hours, queue in ((4, "mail"), (5, "shop")):
            task(f"late {hours} h", claim_at=NOW - hours * HOUR, queue=queue)
        task("due", claim_at=NOW)

    @pytest.mark.usefixtures("of_every_kind")
    def test_overdue_failed_running_next_paused(self, boss: Client) -> None:
        assert tuple(numbers_of(boss.get(LIST))) == self.EXPECTED

    @pytest.mark.usefixtures("of_every_kind")
    def test_over_pages(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TaskAdmin, "list_per_page", 3)
        found = [number for page in range(1, 5) for number in numbers_of(boss.get(LIST, {"p": page}))]
        assert tuple(found) == self.EXPECTED

    @pytest.mark.usefixtures("of_every_kind")
    def test_of_a_queue_and_of_a_status(self, boss: Client) -> None:
        of_mail = ["late 4 h", "failed 2 h ago", "failed 3 h ago", "in 2 h", "in 3 h"]
        assert numbers_of(boss.get(LIST, {"queue": "mail"})) == of_mail
        assert numbers_of(boss.get(LIST, {"status__exact": "2", "code": CODE})) == list(self.EXPECTED[3:6])

    @pytest.mark.usefixtures("of_every_kind")
    def test_with_many_levels_it_is_that_of_the_index(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("django_delayed_tasks.admin.lists.segments.MAX_LEVELS", 1)
        assert set(numbers_of(boss.get(LIST))) == set(self.EXPECTED)

    def test_ends_somewhere(self, boss: Client) -> None:
        assert boss.get(LIST, {"p": "101"})["Location"] == f"{LIST}?e=1"

    @pytest.mark.parametrize(("order", "numbers"), [("1", "abc"), ("-1", "cba"), ("4", "bac"), ("-4", "cab")])
    def test_as_a_person_clicks(self, boss: Client, order: str, numbers: str) -> None:
        for num, hours in (("b", 1), ("c", 3), ("a", 2)):
            task(num, NOW + hours * HOUR)
        assert "".join(numbers_of(boss.get(LIST, {"o": order}))) == numbers

    def test_of_one_code_by_number(self, boss: Client) -> None:
        for num, hours in (("b", 1), ("c", 2), ("a", 3)):
            task(num, NOW + hours * HOUR)
        task("other", biz_code=OTHER)
        assert numbers_of(boss.get(LIST, {"code": CODE})) == ["a", "b", "c"]


class TestFilters:
    @pytest.fixture(autouse=True)
    def tasks(self, db: None) -> None:
        task("overdue", NOW - HOUR, claim_at=NOW - HOUR, queue="mail", priority=-3)
        task("now", NOW, biz_code=OTHER)
        task("soon", NOW + MINUTE, queue="mail")
        task("tonight", NOW + 10 * HOUR, priority=9)
        task("next week", NOW + timedelta(days=7))
        task("running", NOW - HOUR, status=TaskStatus.RUNNING)
        task("failed", NOW - HOUR, status=TaskStatus.FAILED, queue="mail")

    @pytest.mark.parametrize(
        ("condition", "numbers"),
        [
            ({"status__exact": "1"}, {"running"}),
            ({"status__exact": "2"}, {"failed"}),
            ({"due": "overdue"}, {"overdue", "now"}),
            ({"due": "hour"}, {"overdue", "now", "soon"}),
            ({"due": "day"}, {"overdue", "now", "soon", "tonight"}),
            ({"code": OTHER}, {"now"}),
            ({"queue": "mail"}, {"overdue", "soon", "failed"}),
            ({"queue": "mail", "due": "overdue", "code": CODE}, {"overdue"}),
            ({"queue": "nowhere"}, set()),
            ({"code": "no handler has this"}, set()),
            ({"q": "O"}, {"overdue", "now", "soon", "tonight"}),
            ({"q": " NEXT w"}, {"next week"}),
            ({"q": "o", "due": "overdue"}, {"overdue", "now"}),
            ({"q": "100%"}, set()),
        ],
    )
    def test_condition(self, boss: Client, condition: dict[str, str], numbers: set[str]) -> None:
        assert set(numbers_of(boss.get(LIST, condition))) == numbers

    @pytest.mark.parametrize("levels", [0, 1])
    def test_overdue_on_many_levels(self, boss: Client, monkeypatch: pytest.MonkeyPatch, levels: int) -> None:
        monkeypatch.setattr("django_delayed_tasks.admin.lists.filters.MAX_LEVELS", levels)
        assert set(numbers_of(boss.get(LIST, {"due": "overdue"}))) == {"overdue", "now"}

    def test_nothing_is_pending(self, boss: Client) -> None:
        Task._base_manager.filter(status=TaskStatus.PENDING).delete()
        assert numbers_of(boss.get(LIST, {"due": "overdue"})) == []

    def test_choices(self, boss: Client) -> None:
        html = boss.get(LIST).content.decode()
        assert f"?code={CODE}" in html
        assert f"?code={OTHER}" in html
        for queue in ("shop", "mail", "default"):  # of a handler, of tasks, of both
            assert f"?queue={queue}" in html

    def test_choices_are_bounded(self, boss: Client) -> None:
        """Callers name queues: each of twenty thousand as a choice made a page of megabytes."""
        Task._base_manager.bulk_create(new_task(f"{i}", queue=f"q{i:04}") for i in range(300))
        html = boss.get(LIST, {"queue": "q0299"}).content.decode()
        assert len(set(re.findall(r"\?queue=(q\d+)", html))) <= MAX_QUEUES
        assert "queue=q0000" in html
        assert numbers_of(boss.get(LIST, {"queue": "q0299"})) == ["299"]


class TestPages:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch, db: None) -> None:
        monkeypatch.setattr(TaskAdmin, "list_per_page", 4)
        monkeypatch.setattr(changelist, "COUNTED", 10)

    def fill(self, count: int) -> list[str]:
        Task._base_manager.bulk_create(new_task(f"{i:02}", NOW + i * HOUR) for i in range(count))
        return [f"{i:02}" for i in range(count)]

    @pytest.mark.parametrize(
        ("count", "page", "footer"),
        [
            (0, 1, "0 tasks"),
            (1, 1, "1 task"),
            (4, 1, "4 tasks"),
            (5, 1, "1 2 5 tasks"),
            (10, 1, "1 2 3 10 tasks"),
            (11, 1, "1 2 3 more than 10 tasks"),
            (11, 3, "1 2 3 11 tasks"),
            (17, 3, "1 2 3 4 more than 12 tasks"),
            (17, 4, "1 2 3 4 5 more than 16 tasks"),
            (17, 5, "1 2 3 4 5 17 tasks"),
        ],
    )
    def test_every_page_is_reached(self, boss: Client, count: int, page: int, footer: str) -> None:
        numbers = self.fill(count)
        response = boss.get(LIST, {"p": page})
        assert numbers_of(response) == numbers[(page - 1) * 4 : page * 4]
        assert footer_of(response) == footer

    @pytest.mark.parametrize("page", ["0", "3", "999", "-1", "9" * 20])
    def test_no_such_page(self, boss: Client, page: str) -> None:
        self.fill(8)
        assert boss.get(LIST, {"p": page})["Location"] == f"{LIST}?e=1"

    def test_all_that_match(self, boss: Client) -> None:
        self.fill(9)
        assert "Select all 9 tasks" in boss.get(LIST).content.decode()
        self.fill_more(3)
        assert "Select all tasks that match" in boss.get(LIST).content.decode()

    def fill_more(self, count: int) -> None:
        Task._base_manager.bulk_create(new_task(f"more {i}") for i in range(count))


class TestStatements:
    def statements(self, client: Client, **condition: str) -> list[str]:
        with CaptureQueriesContext(connection) as context:
            assert client.get(LIST, condition).status_code == 200
        return [query["sql"] for query in context.captured_queries if "django_delayed_tasks_" in query["sql"]]

    def test_as_many_as_it_takes(self, boss: Client) -> None:
        owners = [executor(f"web/{i}") for i in range(5)]
        Task._base_manager.bulk_create(new_task(f"p{i}") for i in range(150))
        Task._base_manager.bulk_create(
            new_task(f"r{i}", status=TaskStatus.RUNNING, executor=owners[i % 5].pk) for i in range(60)
        )
        levels = len(self.agenda())
        # The agenda once, for the choice of queues and for the order; the counts of four statuses, the failed level,
        # four segments, the bounded count, the rows, the names of executors, the survey.
        assert len(self.statements(boss)) <= levels + 13
        only_running = self.statements(boss, status__exact="1")
        assert len(only_running) == levels + 8  # counts, keys, rows, executors' names, the survey

    def agenda(self) -> list[str]:
        """Return the statements for the choice of queues: two, on SQLite some for each level."""
        with CaptureQueriesContext(connection) as context:
            read_agenda(settings.DATABASE)
        return [query["sql"] for query in context.captured_queries]

    def test_an_action_reads_the_agenda_once(self, boss: Client) -> None:
        row = task()
        first, *_ = self.agenda()
        with CaptureQueriesContext(connection) as context:
            do(boss, "run_now", row)
        assert [query["sql"] for query in context.captured_queries].count(first) == 1

    def test_texts_and_data_are_not_read(self, boss: Client) -> None:
        task(biz_ext={"big": "value"}, last_error="an error")
        [page] = [sql for sql in self.statements(boss) if "error_end" in sql]
        assert "biz_ext" not in page


class TestManyTasks:
    """More than a page may read: they are not sorted, and only the latest of them are searched for a part."""

    @pytest.fixture(autouse=True)
    def many(self, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_list, "RECENT", 9)
        monkeypatch.setattr(filters, "RECENT", 5)
        Task._base_manager.bulk_create(new_task(f"task {i}", NOW - i * HOUR) for i in range(10))
        take_survey("default")

    def numbers(self, boss: Client, **condition: str) -> list[str]:
        return numbers_of(boss.get(LIST, condition))

    def test_a_part_is_found_in_the_latest(self, boss: Client) -> None:
        assert self.numbers(boss, q="TASK") == ["task 9", "task 8", "task 7", "task 6", "task 5"]
        assert self.numbers(boss, q="sk 2") == []

    def test_a_whole_number_is_found_anywhere(self, boss: Client) -> None:
        assert self.numbers(boss, q=" task 2 ") == ["task 2"]
        assert self.numbers(boss, q="task 2", queue="elsewhere") == []

    def test_a_part_is_found_in_all_of_a_code(self, boss: Client) -> None:
        assert self.numbers(boss, q="sk 2", code=CODE) == ["task 2"]

    def test_no_column_sorts(self, boss: Client) -> None:
        assert "sorted" not in boss.get(LIST).content.decode()
        assert self.numbers(boss, o="-1")[0] == "task 0"
        Task._base_manager.filter(biz_num="task 0").delete()
        take_survey("default")
        assert self.numbers(boss, o="-1")[0] == "task 9"


def test_tasks_in_the_database_that_the_setting_names(boss: Client) -> None:
    unknown = override_settings(DELAYED_TASKS={"DATABASE": "elsewhere"})
    with unknown, pytest.raises(ConnectionDoesNotExist, match="elsewhere"):
        boss.get(LIST)
