"""The handlers of the child processes. What they do is noted in the test's folder."""

import os
import time
from datetime import timedelta
from typing import Any

from django_delayed_tasks import TaskHandler
from tests.processes.database import database_now
from tests.processes.folder import pass_gate, write_note


class Noting(TaskHandler):
    """A base for the others."""

    def note(self, event: str, task: Any, with_time: bool = True) -> None:
        at = database_now() if with_time else None
        write_note(event, task.biz_code, task.biz_num, task.attempts, at)


class Quick(Noting):
    biz_code = "quick"

    def handle(self, task: Any) -> None:
        self.note("ran", task, with_time=False)


class Held(Noting):
    """Stands before its gate in mid-run."""

    biz_code = "held"

    def handle(self, task: Any) -> None:
        self.note("started", task)
        pass_gate(task.biz_num)
        self.note("ended", task, with_time=False)  # the database may be away


class Chain(Noting):
    """Passes its gate and adds its successor, due at once, until ``biz_ext`` is down to 0."""

    biz_code = "chain"

    def handle(self, task: Any) -> None:
        self.note("ran", task)
        pass_gate(task.biz_num)
        if task.biz_ext:
            self.schedule(f"{task.biz_num}+", biz_ext=task.biz_ext - 1)


class Hanging(Noting):
    """A handler whose first attempts, as many as ``biz_ext`` says, wait at the gate for too long."""

    biz_code = "hanging"
    timeout = 0.5

    def backoff(self, attempt: int) -> timedelta:
        return timedelta(milliseconds=20)

    def handle(self, task: Any) -> None:
        self.note("started", task)
        if task.attempts <= task.biz_ext:
            pass_gate(task.biz_num)
        self.note("ended", task)


class Single(Held):
    """A handler of which one runs at a time in the whole cluster."""

    biz_code = "single"
    max_concurrent = 1


class Pooled(Held):
    """A handler whose runs need a resource of a pool."""

    biz_code = "pooled"
    pool = "gateways"


class Deadly(Noting):
    """Ends its process on the spot, with the exit code that its data name, or by a signal if that is negative."""

    biz_code = "deadly"

    def handle(self, task: Any) -> None:
        self.note("started", task)
        code = 9 if task.biz_ext is None else task.biz_ext
        if code < 0:
            os.kill(os.getpid(), -code)
            time.sleep(60)  # another thread may get the signal
        os._exit(code)
