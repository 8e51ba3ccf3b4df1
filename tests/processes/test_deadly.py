"""A handler that takes its process with it."""

from django_delayed_tasks.api import add_task, add_tasks
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import outcomes, task
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

MAX_RESCUES = 2
OTHERS = 20


def test_it_is_rescued_so_often_then_fails_and_the_others_are_done(starttask: Start, folder: Folder) -> None:
    add_task(Task(biz_code="deadly", biz_num="1"))
    add_tasks(Task(biz_code="quick", biz_num=str(number)) for number in range(OTHERS))

    def start() -> Child:
        return starttask("--name", "mortal", "--threads", "4", MAX_RESCUES=MAX_RESCUES)

    assert [start().exit_code() for _ in range(MAX_RESCUES + 1)] == [9] * (MAX_RESCUES + 1)
    start()
    wait_until(lambda: not Task.objects.exclude(status=TaskStatus.FAILED).exists())  # some are spread over seconds

    failed = task("deadly", "1")
    assert failed is not None
    assert failed.last_error == "its executor died 3 times while it ran; not rescued again"
    assert failed.rescues == MAX_RESCUES
    assert folder.count("started") == MAX_RESCUES + 1
    assert outcomes("deadly", "1") == [RunOutcome.LOST] * (MAX_RESCUES + 1)
    assert [row.biz_code for row in Task.objects.all()] == ["deadly"]
    assert {note.num for note in folder.notes("ran")} == set(map(str, range(OTHERS)))
