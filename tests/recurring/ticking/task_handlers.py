"""Handlers that recur by themselves. The test can have one end its process at the moment its run begins, or ends."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from django_delayed_tasks import Done, task_handler
from harness.processes_of_folder import VARIABLE
from tests.recurring.ticking.codes import TRIGGERS


def tick(task: Any) -> Done:
    """The history's result is the time that the run stood for."""
    die_if_told("begin", task.biz_code)
    die_if_told("end", task.biz_code)
    return Done(result=task.when.isoformat())


def die_if_told(where: str, code: str) -> None:
    """The process that removes the test's order carries it out."""
    with contextlib.suppress(FileNotFoundError):
        Path(os.environ[VARIABLE], f"die-{where}-{code}").unlink()
        os.kill(os.getpid(), signal.SIGKILL)


task_handler("by-hand")(tick)
for code, trigger in TRIGGERS.items():
    task_handler(code, trigger=trigger)(tick)
