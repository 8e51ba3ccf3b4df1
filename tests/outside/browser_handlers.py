"""The handlers of the tasks that the browser sees."""

import os
from pathlib import Path
from typing import Any

from django_delayed_tasks import TaskHandler

MENDED = "DDT_TEST_MENDED"
"""The variable with the path of the file that makes payments succeed."""


class Fetch(TaskHandler):
    biz_code = "fetch-page"

    def handle(self, task: Any) -> None:
        """Do nothing: it succeeds."""


class Charge(TaskHandler):
    biz_code = "charge-card"
    queue = "pay"
    max_attempts = 1

    def handle(self, task: Any) -> None:
        if not Path(os.environ[MENDED]).exists():
            raise ConnectionError("the bank does not answer")
