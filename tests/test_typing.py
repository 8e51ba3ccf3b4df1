"""What a type checker finds in a project that uses the package."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PROJECT = """
from datetime import timedelta
from uuid import UUID

from django_delayed_tasks import ClaimedTask, Interval, Task, TaskHandler, add_task, task_handler
from django_delayed_tasks import aadd_task, cancel_task, delete_tasks, get_runs
from django_delayed_tasks.leases import MutexLease, Pool, mutex


class Greet(TaskHandler):
    biz_code = "greet"

    def handle(self, task: ClaimedTask) -> None:
        task.check_claim()
        task.check_clam()


class GreetLater(TaskHandler):
    biz_code = "greet-later"

    async def handle(self, task: ClaimedTask) -> timedelta | None:
        await task.acheck_claim()
        await task.acheck_clam()
        return None


@task_handler("pause")
async def pause(task: ClaimedTask) -> None: ...


@task_handler("wave", max_attempts=2, keep_history="none", backoff=lambda attempt: timedelta(seconds=attempt))
def wave(task: ClaimedTask) -> None:
    print(task.biz_num)


add_task(Task(biz_code="greet", biz_num="1"), if_exists="keep")
wave.schedule("1", if_exists="earliest", queue="slow")
Greet.schedule(12)
wave.schedule(UUID(int=12))
cancel_task("greet", 12)
Greet.schedule("1", trigger=Interval(hours=1), expires_at=timedelta(days=1))
if (task := wave.get(1)) is not None and Greet.reschedule(task.biz_num, task.when):
    print(Greet.cancel(12).name, wave.runs("1").count(), wave.cancel("1", using="default"))
get_runs("greet", UUID(int=12))
delete_tasks("greet", 12)

add_task(Task(biz_code="greet", biz_num="1"), if_exists="kep")
wave.schedule("1", if_exist="keep")
Greet.schedule("1", if_exists="latst")
Greet.schedule("1", expire_at=None)
wave.reschedule("1", whne=None)
Greet.get("1").whn


@task_handler("wink", max_attempt=2)
def wink(task: ClaimedTask) -> None: ...


@task_handler("weekly", keep_history=timedelta(days=365))
def weekly(task: ClaimedTask) -> None: ...


@mutex("report")
def report(lease: MutexLease, day: int) -> None:
    lease.check()


report(day=3)
report(dya=3)


async def work() -> None:
    await aadd_task(Task(biz_code="greet", biz_num="1"), if_exists="kap")
    await wave.aschedule("1", if_exits="keep")
    async with mutex("report", at_most=60) as lease, Pool("proxies").lease(at_most=60) as proxy:
        lease.chek()
        proxy.chekk()
"""
MISSPELLED = [
    'delete_tasks("greet", 12', "check_clam(", '"kep"', "if_exist=", '"latst"', "max_attempt=", "dya=",
    "chek()", "chekk()",
    "acheck_clam()", '"kap"', "if_exits=",
    "expire_at", "whne", ".whn",
]  # fmt: skip


def test_a_misspelling_is_found(tmp_path: Path) -> None:
    project = tmp_path / "project.py"
    project.write_text(PROJECT)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(project)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    expected = [next(n for n, line in enumerate(PROJECT.splitlines(), 1) if word in line) for word in MISSPELLED]
    assert sorted({int(line.split(":")[1]) for line in errors}) == sorted(expected), done.stdout + done.stderr
