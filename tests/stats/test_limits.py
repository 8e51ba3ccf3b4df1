"""Tasks that wait for a limit of their handler: they are not late, and pages and commands say what they wait for."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks import TaskHandler, clock, pause_queue, register_task_handler, resume_queue, stats
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Executor, Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.snapshot import take_snapshot
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.resources.rate_tokens import STARTS
from django_delayed_tasks.store.resources.slots import SLOTS
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.sql.lanes import blocked_lane, open_lane
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, OTHER, executor, list_of, new_task, page_of, task
from tests.executor.limits.parts import LanesBench
from tests.executor.parts import add, handler_of

pytestmark = [pytest.mark.per_database, pytest.mark.django_db]

SECOND = timedelta(seconds=1)
frozen = pytest.mark.usefixtures("frozen")


def limited(**attributes: Any) -> None:
    handler_of(lambda task: None, CODE, **attributes)


def due(count: int = 1, late: timedelta = 2 * MINUTE, first: int = 0, code: str = CODE, **fields: Any) -> None:
    """Tasks in the open lane of a code, or in the lane that is given."""
    given = {"claim_at": NOW - late, "biz_code": code, "queue": "mail", "lane": open_lane(code), **fields}
    Task._base_manager.bulk_create(new_task(f"{number}", NOW - late, **given) for number in range(first, first + count))


def running(owner: Executor, count: int, code: str = CODE, **fields: Any) -> list[Task]:
    rows = [
        task(f"runs {code} {number}", NOW, status=TaskStatus.RUNNING, executor=owner.pk, biz_code=code, **fields)
        for number in range(count)
    ]
    for number, row in enumerate(rows):
        slot(f"#{number + 1}", HOUR, code, task_id=row.pk, task_version=row.version)
    return rows


def slot(name: str, taken: timedelta, code: str = CODE, **fields: Any) -> None:
    """A slot that was taken so long ago; free unless it names a running task."""
    Resource.objects.create(pool=SLOTS + code, name=name, busy_before=NOW - taken, version=1, **fields)


def resource(pool: str, busy_before: datetime, name: str = "1", **fields: Any) -> None:
    Resource.objects.create(pool=pool, name=name, busy_before=busy_before, version=1, **fields)


def found() -> list[tuple[str, str, str]]:
    """Kind, level and subject of the problems."""
    return [(problem.kind, problem.level, problem.subject) for problem in stats.problems()]


def said(*command: str) -> tuple[int, str]:
    """The exit code of a command, and what it writes."""
    out = StringIO()
    try:
        call_command(*command, stdout=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue().strip()
    return 0, out.getvalue().strip()


INFORMATION = f"3 tasks of {CODE} wait for max_concurrent = 1 (1 of 1 in use); more executors will not help."


@frozen
class TestABacklogOfALimitedCode:
    """One of eight threads is busy, because that is all that the handler allows."""

    @pytest.fixture(autouse=True)
    def backlog(self) -> None:
        limited(max_concurrent=1)
        running(executor("w", codes=[CODE], expires_at=NOW + 3 * HOUR), 1, queue="mail", lane=open_lane(CODE))
        due(3)

    def test_is_information_and_no_error(self) -> None:
        [problem] = stats.problems()
        assert (problem.kind, problem.level, problem.subject) == ("limited", "info", CODE)
        assert problem.text == f"{INFORMATION} The first has waited for 2 min."
        take_survey("default")
        with clock.frozen_at(NOW + HOUR):
            assert found() == [("limited", "info", CODE)]

    def test_makes_no_queue_late(self) -> None:
        backlog = stats.backlog()
        [queue] = backlog.queues[:1]
        assert (queue.name, queue.due, queue.ready, queue.latency, queue.is_late) == ("mail", 3, 0, timedelta(), False)
        assert (backlog.late, backlog.late_tasks, backlog.latency) == ([], 0, timedelta())
        [one] = json.loads(json.dumps(backlog.as_json()))["queues"][0]["limited"]
        assert one == {
            "queue": "mail", "code": CODE, "tasks": 3, "is_exact": True, "since": (NOW - 2 * MINUTE).isoformat(),
            "limit": "max_concurrent = 1 (1 of 1 in use)",
        }  # fmt: skip

    def test_is_healthy(self) -> None:
        assert said("taskhealth") == (
            0, "OK: 1 alive, no task is late (limit 60 s), 3 tasks wait for limits of their handlers",
        )  # fmt: skip

    def test_is_unhealthy_for_those_who_want_that(self) -> None:
        code, text = said("taskhealth", "--max-limited", "90")
        assert code == 1
        assert text == (
            f"UNHEALTHY: 3 tasks of {CODE} waiting for max_concurrent = 1 (1 of 1 in use), the first for 2 min"
            " (limit 90 s)"
        )
        assert said("taskhealth", "--max-limited", "120")[0] == 0

    def test_status_in_a_terminal(self) -> None:
        first, second, *rest = said("taskstatus")[1].splitlines()
        assert "nothing late" in first
        assert second.startswith(f"INFO: {INFORMATION}")
        assert ["mail", "w", "–", "3", "3", "–", "1", "3"] in [line.split() for line in rest]

    def test_one_of_the_tasks(self, client: Client, admin_user: Any) -> None:
        waits = "it waits for max_concurrent = 1 (1 of 1 in use); more executors will not help"
        assert f"pending; {waits}\n" in said("tasks", "show", CODE, "2")[1]
        assert json.loads(said("tasks", "show", CODE, "2", "--format", "json")[1])["waits_for"] == waits
        pause_queue("mail")
        assert said("tasks", "show", CODE, "2", "--format", "json")[1].count(f"its queue is paused; {waits}") == 1
        resume_queue("mail")
        client.force_login(admin_user)
        assert f"late by 2 min: {waits}." in client.get(page_of(Task.objects.get(biz_num="2"))).content.decode()

    def test_pages(self, client: Client, admin_user: Any) -> None:
        client.force_login(admin_user)
        queues = client.get(list_of("pausedqueue")).content.decode()
        assert "3 tasks wait for a limit" in queues
        assert "blocked by limits" in queues
        assert "late by" not in queues
        overview = client.get(list_of("overview")).content.decode()
        assert f'class="ddt-problem ddt-problem-info"><strong><bdi>{INFORMATION}' in overview
        assert "3 tasks wait for a limit" in overview

    def test_the_banner_of_other_pages_is_for_what_is_wrong(self, client: Client, admin_user: Any) -> None:
        client.force_login(admin_user)
        assert client.get(f"{list_of('overview')}problems/").content.decode().strip() == ""

    def test_metrics(self) -> None:
        from django_delayed_tasks.metrics.cluster import read_cluster

        cluster = read_cluster("default")
        assert (cluster.overdue, cluster.limited) == ({"mail": 0.0}, {("mail", CODE): 120.0})

    def test_what_could_run_is_late(self) -> None:
        due(2, 3 * MINUTE, first=10, code=OTHER, lane="")
        [queue] = stats.backlog().late
        assert (queue.name, queue.due, queue.ready, queue.latency) == ("mail", 5, 2, 3 * MINUTE)
        take_survey("default")
        with clock.frozen_at(NOW + 5 * MINUTE):
            problems = stats.problems()
        assert [problem.kind for problem in problems] == ["code_without_handler", "late_and_growing", "limited"]
        assert "late by 8 min, and the lateness grows (2 tasks due). 7 of 8 threads are idle." in problems[1].text

    def test_what_could_run_grows_whatever_has_waited_for_a_limit(self) -> None:
        Executor.objects.update(codes=[CODE, OTHER])
        due(1, 5 * HOUR, first=20)
        due(1, MINUTE, first=10, code=OTHER, lane="")
        take_survey("default")
        with clock.frozen_at(NOW + 5 * MINUTE):
            assert found() == [("late_and_growing", "error", "mail"), ("limited", "info", CODE)]

    @pytest.mark.parametrize(
        ("change", "kinds"),
        [
            (lambda: Executor.objects.update(expires_at=NOW - MINUTE), ["no_executor", "executor_lost"]),
            (lambda: Executor.objects.update(queues=["other"]), ["queue_unserved"]),
            (lambda: pause_queue("mail"), ["queue_paused"]),
            (lambda: Resource.objects.update(task_id=None), ["late"]),
            (lambda: limited_again(max_concurrent=2), ["late"]),
            (lambda: limited_again(), ["late"]),
        ],
        ids=["no executor", "not served", "paused", "a free slot", "a higher limit", "no limit"],
    )
    def test_is_something_else_if_no_limit_holds_it_back(self, change: Callable[[], Any], kinds: list[str]) -> None:
        change()
        assert [problem.kind for problem in stats.problems()] == kinds


def limited_again(**attributes: Any) -> None:
    from django_delayed_tasks.handlers import registry

    registry.clear()
    limited(**attributes)


@frozen
class TestWhichLimit:
    def limits(self) -> list[str]:
        assert not stats.backlog().late
        return [one.limit for queue in stats.backlog().queues for one in queue.limited]

    def is_late(self) -> bool:
        return bool(stats.backlog().late)

    @pytest.mark.parametrize(("taken", "is_late"), [(3 * SECOND, False), (10 * SECOND, True)])
    def test_slots_that_short_runs_take_all_the_time(self, taken: timedelta, is_late: bool) -> None:
        """One of two is held for long, and the other one is free for a moment."""
        limited(max_concurrent=2)
        running(executor(codes=[CODE]), 1, queue="mail", lane=open_lane(CODE))
        slot("#2", taken)
        due()
        assert self.is_late() is is_late

    def test_slots_that_are_free_because_threads_are_not(self) -> None:
        limited(max_concurrent=2)
        running(executor(codes=[CODE], threads=1), 1, queue="mail", lane=open_lane(CODE))
        slot("#2", 3 * SECOND)
        due()
        assert self.is_late()

    @pytest.mark.parametrize(
        ("threads", "ahead", "is_late"),
        [(8, MINUTE, False), (8, -3 * SECOND, False), (8, -10 * SECOND, True), (0, -3 * SECOND, True)],
    )
    def test_a_rate(self, threads: int, ahead: timedelta, is_late: bool) -> None:
        limited(rate="2/m")
        executor(codes=[CODE], threads=threads)
        resource(STARTS + CODE, NOW + ahead, "1")
        resource(STARTS + CODE, NOW + MINUTE, "2")
        due()
        assert self.is_late() is is_late
        if not is_late:
            assert self.limits() == ["rate = 2/m (all starts that it allows have been used)"]

    def test_a_pool(self) -> None:
        limited(pool="proxies")
        executor(codes=[CODE])
        resource("proxies", NOW + MINUTE, "1")
        resource("proxies", NOW - HOUR, "2", enabled=False)
        due()
        assert self.limits() == ["a resource of the pool “proxies” (none is free)"]
        resource("proxies", NOW - HOUR, "3")
        assert self.is_late()

    def test_a_pool_without_any_resource_needs_a_person(self) -> None:
        limited(pool="proxies")
        executor(codes=[CODE])
        resource("proxies", NOW - HOUR, enabled=False)
        due()
        assert self.is_late()
        problem = stats.problems()[0]
        assert (problem.kind, problem.level, problem.subject) == ("pool_empty", "error", "proxies")
        assert (
            problem.text == f"Tasks of the code “{CODE}” wait, and the pool “proxies” has no resource that is enabled."
        )

    def test_keys(self) -> None:
        limited(max_concurrent=1, rate="2/10s", concurrency_key=lambda self, task: "k")
        executor(codes=[CODE])
        for key in ("a", "b"):
            due(2, HOUR if key == "b" else MINUTE, first=2 * ord(key), lane=blocked_lane(CODE, key))
        due(1, MINUTE, first=5, code="gone", lane=blocked_lane("gone", "c"))
        first, second = sorted((one for queue in stats.backlog().queues for one in queue.limited), key=str)
        assert (first.code, first.tasks, first.limit) == ("gone", 1, "a limit of their keys")
        assert (second.tasks, second.limit) == (4, "max_concurrent = 1 and rate = 2/10s of their keys")
        assert second.since == NOW - HOUR
        assert not stats.backlog().late

    def test_keys_without_an_executor_are_late(self) -> None:
        due(2, HOUR, lane=blocked_lane(CODE, "a"))
        [queue] = stats.backlog().late
        assert (queue.latency, queue.limited) == (HOUR, [])

    def test_more_of_keys_than_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(waiting, "COUNTED", 3)
        executor(codes=[CODE, OTHER])
        for number, code in enumerate((CODE, OTHER)):
            due(4, HOUR, code=code, lane=blocked_lane(code, "k"))
            assert [one.is_exact for queue in stats.backlog().queues for one in queue.limited].count(
                False
            ) == number + 1
        texts = [problem.text for problem in stats.problems() if problem.kind == "limited"]
        assert all("at least" in text for text in texts)

    def test_two_priorities_are_one_backlog(self) -> None:
        limited(pool="proxies")
        executor(codes=[CODE])
        resource("proxies", NOW + MINUTE)
        due(2)
        due(3, HOUR, first=10, priority=5)
        [one] = [one for queue in stats.backlog().queues for one in queue.limited]
        assert (one.tasks, one.since) == (5, NOW - HOUR)

    def test_statements_do_not_grow_with_codes(self) -> None:
        executor(codes=[CODE])
        counts = []
        for number in range(12):
            code = f"code{number}"
            handler_of(lambda task: None, code, max_concurrent=1, rate="1/m", pool=f"pool{number}")
            resource(STARTS + code, NOW + MINUTE)
            due(code=code)
            seen = take_snapshot()
            assert seen.due_levels
            assert seen.alive
            with CaptureQueriesContext(connection) as context:
                assert len(waits_of(seen)) == number + 1
            counts.append(len(context.captured_queries))
        assert set(counts[1:]) == {counts[1]}


def waits_of(seen: Any) -> list[Any]:
    from django_delayed_tasks.stats import limits

    return limits.waits_of(seen).limited


class TestByAnExecutor:
    """The rows that an executor writes are those that are read here."""

    @pytest.mark.parametrize(
        ("attributes", "limit"),
        [
            ({"max_concurrent": 2}, "max_concurrent = 2 (2 of 2 in use)"),
            ({"rate": "2/h"}, "rate = 2/h (all starts that it allows have been used)"),
            ({"pool": "proxies"}, "a resource of the pool “proxies” (none is free)"),
            ({"max_concurrent": 2, "concurrency_key": lambda self, task: "k"}, "max_concurrent = 2 of their keys"),
            ({"rate": "2/h", "concurrency_key": lambda self, task: "k"}, "rate = 2/h of their keys"),
        ],
        ids=["slots", "rate", "pool", "slots of keys", "rate of keys"],
    )
    def test_a_limit(self, attributes: dict[str, Any], limit: str) -> None:
        handler_of(lambda task: None, "code", **attributes)
        for name in ("a", "b"):
            Pool("proxies").add(name)
        bench = LanesBench()
        for number in range(5):
            add(f"{number}")
        Task._base_manager.update(claim_at=read_now("default") - 2 * MINUTE)
        bench.turn()
        assert len(bench.running) == 2
        [one] = [one for queue in stats.backlog().queues for one in queue.limited]
        assert (one.code, one.tasks, one.limit) == ("code", 3, limit)
        assert re.match("no task is late", said("taskhealth")[1].partition("alive, ")[2])
        bench.end()


@frozen
class TestWhyItIsLate:
    def text(self) -> str:
        [problem] = [problem for problem in stats.problems() if problem.kind == "late"]
        return problem.text

    def test_all_threads_are_busy(self, client: Client, admin_user: Any) -> None:
        for name, code, count in (("a", "charge", 2), ("b", "export", 1)):
            owner = executor(name, threads=count, codes=[CODE])
            for number in range(count):
                task(f"{number}", NOW, status=TaskStatus.RUNNING, executor=owner.pk, biz_code=code)
        due(2, lane="")
        busy = "All 3 threads are busy: 2 charge, 1 export."
        assert self.text() == f"The queue “mail” is late by 2 min (2 tasks due). {busy}"
        assert f"pending; it waits for an executor. {busy[:-1]}\n" in said("tasks", "show", CODE, "1")[1]
        client.force_login(admin_user)
        assert (
            f"it waits for an executor. {busy}"
            in client.get(page_of(Task.objects.get(biz_code=CODE, biz_num="1"))).content.decode()
        )

    def test_with_more_codes_than_are_named(self) -> None:
        owner = executor(threads=7, codes=[CODE])
        for number in range(7):
            task(f"{number}", NOW, status=TaskStatus.RUNNING, executor=owner.pk, biz_code=f"c{number}")
        due(lane="")
        assert self.text().endswith("All 7 threads are busy: 1 c0, 1 c1, 1 c2, 1 c3, 1 c4, ….")

    def test_more_is_claimed_than_runs(self) -> None:
        owner = executor(threads=1, codes=[CODE])
        for number in range(3):
            task(f"{number}", NOW, status=TaskStatus.RUNNING, executor=owner.pk)
        due(lane="", first=10)
        assert self.text().endswith(f"All threads (1) are busy; claimed are 3 {CODE}.")

    def test_runs_on_an_event_loop_use_no_thread(self) -> None:
        class Handler(TaskHandler):
            biz_code = "async"

            async def handle(self, task: Any) -> None:
                """Never called here."""

        register_task_handler(Handler())
        owner = executor(threads=2, codes=[CODE])
        for number, code in enumerate(("async", "async", OTHER)):
            task(f"{number}", NOW, status=TaskStatus.RUNNING, executor=owner.pk, biz_code=code)
        due(lane="", first=10)
        assert self.text().endswith("1 of 2 threads are idle.")

    def test_the_threads_of_other_queues_do_not_count(self) -> None:
        executor("a", queues=["other"], codes=[CODE])
        owner = executor("b", queues=["mail"], threads=1, codes=[CODE])
        task("runs", NOW, status=TaskStatus.RUNNING, executor=owner.pk, biz_code=OTHER)
        due(lane="")
        assert self.text().endswith(f"The only thread is busy: 1 {OTHER}.")
