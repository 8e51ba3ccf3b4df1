"""A local queue with claimed tasks in it, and a run before them that stands still."""

from django_delayed_tasks.api import add_tasks
from django_delayed_tasks.models import Task
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

QUICK_ONES = 400


def fill_local_queue(folder: Folder) -> None:
    """Task "held" 1 is in mid-handler, half of the quick ones are done, and some of the others are claimed.

    For an executor with one thread and a gate that is shut; quick runs teach it to claim ahead.
    """
    before = [Task(biz_code="quick", biz_num=f"a{number}", priority=2) for number in range(QUICK_ONES // 2)]
    behind = [Task(biz_code="quick", biz_num=f"b{number}", priority=0) for number in range(QUICK_ONES // 2)]
    add_tasks([*before, Task(biz_code="held", biz_num="1", priority=1), *behind])
    wait_until(lambda: folder.notes("started", "1"))
    # Once a task of those behind has been claimed, all that is claimed ahead has been claimed, or given back again.
    wait_until(lambda: Task.objects.filter(biz_num__startswith="b", version__gt=0).exists())
