"""From ``t_task`` to delayed tasks."""

import json

from django.db import transaction
from django_delayed_tasks import Task, add_tasks


def move_tasks(old_tasks):
    """Move all rows that wait, as often as it is called; return how many there were."""
    count = 0
    while moved := move_some(old_tasks):
        count += moved
    return count


@transaction.atomic
def move_some(old_tasks, limit=500):
    """Move the latest rows, locked, so that the old loop cannot run one of them."""
    waiting = old_tasks.filter(status="waiting").order_by("-pk")
    rows = list(waiting.select_for_update()[:limit])
    if rows:
        add_tasks([task_of(row) for row in rows], if_exists="keep")
        old_tasks.filter(pk__in=[row.pk for row in rows]).update(status="moved")
    return len(rows)


def task_of(row):
    data = json.loads(row.biz_ext) if row.biz_ext else None
    return Task(biz_code=row.biz_code, biz_num=row.biz_num, when=row.when, biz_ext=data)
