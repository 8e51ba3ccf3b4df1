"""Async handlers of the child processes."""

import asyncio
from typing import Any

from tests.processes.folder import write_note
from tests.processes.handlers import Noting


class Patient(Noting):
    """Waits for as many seconds as ``biz_ext`` says."""

    biz_code = "patient"

    async def handle(self, task: Any) -> None:
        write_note("started", task.biz_code, task.biz_num, task.attempts)
        try:
            await asyncio.sleep(task.biz_ext)
        except asyncio.CancelledError:
            write_note("cancelled", task.biz_code, task.biz_num, task.attempts)
            raise
