"""What the pages show of triggers, for tests."""

import re
from datetime import timedelta
from typing import Any

from django_delayed_tasks.models import Task
from tests.admin.pages import text_of

EVERY_TEN = "Cron('*/10 * * * *', tz='UTC')"
NIGHTLY = "Cron('0 3 * * *', tz='America/New_York')"
SPOILT = "Cron('61 3 * * <b>')"
DAY = timedelta(days=1)


def times_of(response: Any) -> list[list[str]]:
    """The cells of the table of next times."""
    found = re.search(r'<table class="ddt-times">(.*?)</table>', response.content.decode(), re.DOTALL)
    lines = re.findall(r"<tr>(.*?)</tr>", found[1], re.DOTALL) if found else []
    return [[text_of(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line)] for line in lines]


def outlook_of(response: Any) -> str:
    """Return the text below the trigger, before the table."""
    found = re.search(r'<div class="ddt-outlook[^>]*>(.*?)(<table|</div>)', response.content.decode(), re.DOTALL)
    return text_of(found[1].replace("</p>", "\n")) if found else ""


def stored() -> tuple[str | None, int]:
    """The trigger and the version of the only task."""
    row = Task.objects.get()
    return row.trigger_text, row.version
