"""What is wrong: each problem appears when its cause does, and only then."""

from datetime import timedelta

import pytest
from django.db import connection, connections, transaction

from django_delayed_tasks import clock, pause_queue, stats
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import ExecutorStatus, TaskStatus
from django_delayed_tasks.stats import findings as module
from django_delayed_tasks.stats.snapshot import Snapshot
from django_delayed_tasks.store.sql.transactions import oldest_transaction
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, task
from tests.sessions import other_sessions
from tests.threads import in_thread

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def kinds() -> list[tuple[str, str, str]]:
    """Kind, level and subject of what is wrong."""
    return [(problem.kind, problem.level, problem.subject) for problem in stats.problems()]


def late(num: str = "1", by: timedelta = 2 * MINUTE, queue: str = "mail", code: str = CODE) -> None:
    task(num, NOW - by, claim_at=NOW - by, queue=queue, biz_code=code)


def test_nothing_is_wrong_while_an_executor_has_nothing_to_do() -> None:
    executor(codes=[CODE])
    task("1")
    assert kinds() == []


def test_no_executor() -> None:
    assert kinds() == [("no_executor", "warning", "")]
    late()
    late("2", HOUR)
    [problem] = stats.problems()
    assert (problem.kind, problem.level) == ("no_executor", "error")
    assert problem.text == "No executor is alive (2 tasks due, the first for 1 h)."
    assert "starttask" in problem.advice
    pause_queue("mail")  # what it has is not late, whatever is alive
    assert kinds() == [("no_executor", "warning", ""), ("queue_paused", "warning", "mail")]


def test_an_executor_whose_lease_ran_out_is_not_alive() -> None:
    executor("web1", expires_at=NOW - MINUTE, heartbeat_at=NOW - 2 * MINUTE)
    assert kinds() == [("executor_lost", "error", "web1"), ("no_executor", "warning", "")]


def test_a_queue_without_an_executor() -> None:
    executor(queues=["shop"], codes=[CODE])
    task("later", queue="mail")
    assert kinds() == [("queue_unserved", "warning", "mail")]
    late()
    assert kinds() == [("queue_unserved", "error", "mail")]
    executor("web2", queues=["mail"], codes=[CODE])
    assert ("queue_unserved", "error", "mail") not in kinds()


def test_a_queue_whose_name_is_misspelled() -> None:
    executor(queues=["mail", "shop"], codes=[CODE])
    late(queue="mial")
    [problem] = stats.problems()
    assert (problem.kind, problem.subject) == ("queue_unserved", "mial")
    assert problem.advice == "Did you mean the queue “mail”? Otherwise, start an executor that serves it."


def test_a_code_that_waits_and_has_no_handler() -> None:
    executor(codes=["other"])
    late(by=timedelta(seconds=30))
    assert kinds() == [("code_without_handler", "error", CODE)]
    [problem] = stats.problems()
    assert problem.advice == (
        "Deploy the handler, in task_handlers.py of an installed app or named in TASK_HANDLERS, and restart starttask:"
        " its tasks run up to a minute later. If the code is gone, cancel the tasks."
    )
    executor("web2", codes=[CODE])
    assert kinds() == []


def test_it_has_no_handler_at_once_and_although_executors_put_it_off() -> None:
    """They do for a minute, each time that they look at it."""
    executor(codes=["other"])
    late(by=timedelta(seconds=1))
    assert kinds() == [("code_without_handler", "error", CODE)]
    Task.objects.update(claim_at=NOW + timedelta(seconds=36))
    assert kinds() == [("code_without_handler", "error", CODE)]
    Task.objects.update(when=NOW + timedelta(seconds=36))
    assert kinds() == []


def test_a_handler_in_an_executor_of_another_queue_is_none() -> None:
    executor("web1", codes=["other"], queues=["mail"])
    executor("web2", codes=[CODE], exclude_queues=["mail"])
    late()
    assert ("code_without_handler", "error", CODE) in kinds()


def test_a_function_that_no_executor_has_imported_yet() -> None:
    """Executors import its module when they claim its first task."""
    executor(codes=["other"])
    task("1", NOW - 2 * MINUTE, claim_at=NOW - 2 * MINUTE, queue="mail", biz_ext={"function": CODE})
    assert ("code_without_handler", "error", CODE) not in kinds()


def test_late_and_growing() -> None:
    executor(codes=[CODE], expires_at=NOW + HOUR)
    late()
    assert kinds() == [("late", "warning", "mail")]
    take_survey("default")
    assert kinds() == [("late", "warning", "mail")]
    with clock.frozen_at(NOW + 5 * MINUTE):
        [problem] = stats.problems()
    assert (problem.kind, problem.level, problem.subject) == ("late_and_growing", "error", "mail")
    assert problem.advice == "The log of the executors says why they do not claim these tasks."


def test_late_and_growing_because_all_threads_are_busy() -> None:
    web = executor(codes=[CODE], expires_at=NOW + HOUR, threads=1)
    task("running", status=TaskStatus.RUNNING, executor=web.pk)
    late()
    take_survey("default")
    with clock.frozen_at(NOW + 5 * MINUTE):
        [problem] = [problem for problem in stats.problems() if problem.kind == "late_and_growing"]
    assert "The only thread is busy" in problem.text
    assert problem.advice == "Start more executors, or give them more threads."


def test_late_and_catching_up() -> None:
    executor(codes=[CODE], expires_at=NOW + HOUR)
    late("1", HOUR)
    take_survey("default")
    late("2", -2 * MINUTE)
    Task._base_manager.filter(biz_num="1").delete()
    with clock.frozen_at(NOW + 5 * MINUTE):
        assert kinds() == [("late", "warning", "mail")]


def test_a_paused_queue_with_due_tasks() -> None:
    executor(codes=[CODE])
    pause_queue("mail")
    assert kinds() == []
    late(by=HOUR)
    assert kinds() == [("queue_paused", "warning", "mail")]


def test_a_crashed_executor() -> None:
    executor("web1", codes=[CODE])
    crashed = {"alive": None, "status": ExecutorStatus.CRASHED, "host": "h1 (ab-1)"}
    executor("web2", expires_at=NOW - MINUTE, **crashed)
    executor("web2", expires_at=NOW - 2 * MINUTE, **crashed)
    executor("web3", expires_at=NOW - 2 * HOUR, **crashed)
    executor("web1", expires_at=NOW - MINUTE, **crashed)  # started again
    [problem] = stats.problems()
    assert problem.text == "The executor “web2” on h1 crashed 1 min ago, and is not back yet."
    executor("web2", alive=None, status=ExecutorStatus.STOPPED, expires_at=NOW - timedelta(seconds=5))
    assert kinds() == []


def test_clock_skew(monkeypatch: pytest.MonkeyPatch) -> None:
    executor("web1", heartbeat_at=NOW + MINUTE, codes=[CODE])
    [problem] = stats.problems()
    assert (problem.kind, problem.subject) == ("clock_skew", "web1")
    seen = Snapshot("default")
    for seconds, text in ((90, "1 min 30 s ahead of"), (-90, "1 min 30 s behind")):
        seen.__dict__["host_ahead"] = timedelta(seconds=seconds)
        texts = [problem.text for problem in module.problems_of(seen)]
        assert f"The clock of this host is {text} that of the database." in texts


def test_the_time_that_other_readings_take_is_no_clock_skew() -> None:
    seen = Snapshot("default")
    assert seen.agenda
    with clock.frozen_at(NOW + MINUTE):  # so long do other readings take
        assert seen.host_ahead == timedelta()


def test_a_heartbeat_after_the_first_reading_is_no_clock_skew() -> None:
    seen = Snapshot("default")
    assert seen.agenda
    executor("web1", heartbeat_at=NOW + timedelta(seconds=3), codes=[CODE])
    with clock.frozen_at(NOW + timedelta(seconds=4)):
        assert [problem.kind for problem in module.problems_of(seen)] == []


@pytest.mark.parametrize(("seconds", "text"), [(90, "1 min 30 s ahead of"), (-90, "1 min 30 s behind")])
def test_the_clock_of_an_executors_host_differs(seconds: int, text: str) -> None:
    wrong = NOW + timedelta(seconds=seconds)
    executor("web1", heartbeat_at=NOW, host_time=wrong, host="h1 (ab-1)", codes=[CODE])
    executor("web2", heartbeat_at=NOW, host_time=wrong, host="h1 (ab-1)", codes=[CODE])
    executor("web3", heartbeat_at=NOW, host_time=NOW - timedelta(seconds=1), host="h2 (ab-1)", codes=[CODE])
    executor("web4", heartbeat_at=NOW, host_time=None, host="h3 (ab-1)", codes=[CODE])
    [problem] = stats.problems()
    assert problem.kind == "clock_skew"
    assert problem.text == f"The clock of h1, where “web2” runs, is {text} that of the database."


def test_only_some_of_a_kind() -> None:
    executor(queues=["none"], codes=[CODE])
    for number in range(9):
        late(f"{number}", queue=f"q{number}")
    assert len(kinds()) == module.MAX_OF_A_KIND


class TestOldTransactions:
    def test_is_a_problem_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        executor(codes=[CODE])
        monkeypatch.setattr(module, "oldest_transaction", lambda alias: (timedelta(minutes=9), 17))
        assert kinds() == []
        monkeypatch.setattr(module, "oldest_transaction", lambda alias: (timedelta(minutes=11), 17))
        assert kinds() == [("old_transaction", "warning", "17")]


def test_the_server_tells_the_oldest_transaction(live_db: str) -> None:
    if live_db == "sqlite":
        assert oldest_transaction("default") is None
        return
    before = other_sessions()
    with transaction.atomic():
        task("1")  # a transaction that has written has a snapshot, or an id, on each server
        with connection.cursor() as cursor:
            cursor.execute("SELECT CONNECTION_ID()" if connection.vendor == "mysql" else "SELECT pg_backend_pid()")
            [session] = cursor.fetchone()
        found = in_thread(lambda: oldest_transaction("default"))
    assert found is not None or connections["default"].vendor == "postgresql"  # between statements it may have none
    if found:
        # Another database of the same server, or a session from before, may have an older one.
        assert found[1] == session or found[1] not in other_sessions() - before
        assert timedelta(seconds=-2) <= found[0] < timedelta(minutes=5)
