"""One process that adds tasks at full speed, one by one: ``sustain_add SECONDS NUMBER``. It prints what it has done.

Each task is added in a transaction of the caller, next to a row of the caller's own. Of ten calls, one adds a task for
later, and one cancels such a task or reschedules it to now, in turn. Tasks for later are due only long after the end,
so that each of them is still waiting when its turn comes.
"""

import json
import sys
import time
from collections import deque
from datetime import timedelta

import django
from django.db import transaction

from harness.benchmarks.programs.sustain_run import CODE, handlers

LATER = timedelta(hours=1)
LEAST = 20
"""Operations: even a process that is late for everything has added, cancelled and rescheduled."""


def add(biz_num: str, when: timedelta | None = None) -> None:
    """Add a task with a row of the caller's own."""
    from django_delayed_tasks import Task, add_task
    from harness.benchmarks.effects.models import Effect

    with transaction.atomic():
        Effect.objects.create(biz_num=biz_num)
        add_task(Task(biz_code=CODE, biz_num=biz_num, when=when))


def change(biz_num: str, is_cancelled: bool) -> None:
    """Cancel a waiting task, or reschedule it to now."""
    from django_delayed_tasks import CancelResult, cancel_task, reschedule_task

    if is_cancelled:
        done = cancel_task(CODE, biz_num) is CancelResult.CANCELLED
    else:
        done = reschedule_task(CODE, biz_num, timedelta())
    if not done:
        raise RuntimeError(f"the task {biz_num} was not waiting")


def main(seconds: float, number: int) -> dict[str, int]:
    """Add until ``seconds`` are over; return the number of tasks added and cancelled, and of all calls."""
    waiting: deque[str] = deque()
    counts = {"added": 0, "cancelled": 0, "calls": 0}
    end = time.monotonic() + seconds
    while counts["calls"] < LEAST or time.monotonic() < end or waiting:
        calls = counts["calls"]
        if calls % 10 == 9 or (waiting and calls >= LEAST and time.monotonic() >= end):
            is_cancelled = calls % 20 > 9
            change(waiting.popleft(), is_cancelled)
            counts["cancelled"] += is_cancelled
        else:
            biz_num = f"{number}-{calls}"
            is_later = calls % 10 == 4
            add(biz_num, LATER if is_later else None)
            if is_later:
                waiting.append(biz_num)
            counts["added"] += 1
        counts["calls"] += 1
    return counts


if __name__ == "__main__":
    django.setup()
    handlers(lambda lateness: None)
    seconds, number = sys.argv[1:]
    print(json.dumps(main(float(seconds), int(number))))
