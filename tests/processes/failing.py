"""Handlers that raise with data in their variables, and that print."""

import logging
import os
import subprocess
import sys
import warnings
from datetime import timedelta
from typing import Any

from django_delayed_tasks import Fail, TaskHandler
from harness.processes_of_folder import VARIABLE
from tests.processes.folder import pass_gate


class Failing(TaskHandler):
    biz_code = "failing"
    max_attempts = 2

    def backoff(self, attempt: int) -> timedelta:
        return timedelta()

    def handle(self, task: Any) -> Any:
        if task.biz_num.startswith("refused"):
            return Fail(f"order {task.biz_ext['order']} is closed")
        data, token = task.biz_ext, task.biz_ext["token"]
        raise ValueError(f"order {data['order']} cannot be paid with {len(token)} characters")


class Printing(TaskHandler):
    biz_code = "printing"

    def handle(self, task: Any) -> None:
        print(f"printed for {task.biz_num}")
        pass_gate(task.biz_num)


class Outspoken(TaskHandler):
    """It uses its output in all the ways there are."""

    biz_code = "outspoken"

    def handle(self, task: Any) -> None:
        for stream in (sys.stdout, sys.stderr):
            print(f"for {task.biz_num}", "a line", file=stream, flush=True)
            stream.buffer.write(b"bytes\n" * 10_000)
            stream.flush()
        warnings.warn("seen", stacklevel=1)
        logging.getLogger(__name__).error("logged")


class Mailing(TaskHandler):
    """Its command answers at once and leaves a process behind, as sendmail does."""

    biz_code = "mailing"
    max_attempts = 1

    def handle(self, task: Any) -> None:
        command = 'sleep 0.05; echo >> "$0/sent"'
        ended = subprocess.run(["sh", "-c", f"({command}) & exit 7", os.environ[VARIABLE]], stdin=subprocess.DEVNULL)
        if ended.returncode != 7:
            raise ValueError(f"the exit code of a child was taken: {ended.returncode}")
