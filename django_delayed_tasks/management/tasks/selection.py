"""Which tasks the arguments of ``manage.py tasks`` select."""

from heapq import merge
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.acceptance import known_code, known_identity
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.preview import PlannedRun
from django_delayed_tasks.store.schedules.find import find_all, find_failed
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.sql.dialects import IN_LEVEL
from django_delayed_tasks.store.validation import valid_choice, valid_code, valid_queue


def listed(given: dict[str, Any]) -> list[Task]:
    """Return the tasks of the verb ``list``, and one more than its limit if there are more.

    Raises:
        InvalidTask: a value cannot be searched for, or no handler and no row has the code.
    """
    alias = api.database(given["database"])
    code = None if given["code"] is None else known_code(alias, given["code"])
    tasks = find_all(alias, code, given["match"], given["due_before"], given["due_after"])
    if given["status"]:
        tasks = tasks.filter(status=TaskStatus[given["status"].upper()])
    if given["queue"] is not None:
        tasks = tasks.filter(queue=valid_queue(given["queue"]))
    if given["late"] is not None:
        tasks = tasks.filter(status=TaskStatus.PENDING, claim_at__lte=read_now(alias) - given["late"])
    order = ("-update_time", "-id") if given["status"] == "failed" else ("claim_at", "id")
    return list(tasks.order_by(*order)[: positive(given["limit"]) + 1])


def coming(given: dict[str, Any]) -> list[Task]:
    """Return the tasks of the verb ``next``: pending, in queues that are not paused, the earliest first.

    Each level of the claim index is read from its beginning, so this takes no longer if many tasks wait. Blocked tasks,
    which are due and wait for a limit, are left out.
    """
    alias, limit = api.database(given["database"]), positive(given["limit"])
    pending = Task.objects.using(alias).filter(status=TaskStatus.PENDING)
    agenda = read_agenda(alias)
    rows = [
        pending.filter(lane=level.lane, queue=level.queue, priority=level.priority).order_by(*IN_LEVEL)[:limit]
        for level in (*agenda.levels, *agenda.lanes)
        if given["queue"] in (None, level.queue)
    ]
    return list(islice(merge(*rows, key=lambda task: (task.claim_at, -task.priority, task.pk)), limit))


def planned(given: dict[str, Any]) -> list[PlannedRun]:
    """Return the runs of the verb ``next`` with ``--until``, and one more than its limit if there are more."""
    return api.preview(given["until"], limit=positive(given["limit"]) + 1, using=given["database"])


def positive(limit: int) -> int:
    """Return a limit.

    Raises:
        InvalidTask: it is not above zero.
    """
    if limit < 1:
        raise InvalidTask("limit", limit, "must be at least 1")
    return limit


def named(given: dict[str, Any]) -> "QuerySet[Task]":
    """Return the one task that the arguments name, in a queryset that may be empty.

    Raises:
        InvalidTask: the values are no identity, or no handler and no row has the code.
    """
    alias = api.database(given["database"])
    code, number = known_identity(alias, given["code"], given["number"])
    return Task.objects.using(alias).filter(biz_code=code, biz_num=number)


def selected(given: dict[str, Any]) -> "QuerySet[Task]":
    """Return the tasks of a verb for many: the one that is named, or those that the filters select.

    Raises:
        InvalidTask: as :func:`named`; or neither a task nor a filter is given, and ``--all`` is not.
    """
    filters = (given["due_before"], given["due_after"], given.get("failed_since"))
    if given["number"] is not None:
        if given["all"] or any(value is not None for value in (*filters, given["match"])):
            raise InvalidTask("number", given["number"], "names one task, so the filters and --all do not apply")
        return named(given)
    if not given["all"] and not given["match"] and all(value is None for value in filters):
        problem = "without a number or a filter, this selects every task of the code; pass --all if that is intended"
        raise InvalidTask("code", given["code"], problem)
    alias = api.database(given["database"])
    part = valid_choice(given["match"], filters, everything=True)
    return find_all(alias, known_code(alias, valid_code(given["code"])), part, *filters[:2])


def failed(given: dict[str, Any]) -> "QuerySet[Task]":
    """Return those of the selected tasks that have failed.

    Raises:
        InvalidTask: as :func:`selected`.
    """
    return find_failed(selected(given), given["failed_since"])
