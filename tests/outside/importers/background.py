"""Tasks of django-background-tasks: its own runner says what it would call, and when."""

import json
import logging
import random
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from django.forms import model_to_dict

from tests.outside.importers.common import NOW, STEPS, Verdicts, call_of, configure, imported, starts_of

ROWS = 70
PATH = "tests.outside.importers.functions.send"
PARAMS: tuple[Any, ...] = (
    [[], {}], [[7], {"full": True}], [["é", None, 1.5], {}], [[[1, {"a": [2]}]], {"b": {"c": "d"}}],
)  # fmt: skip
BAD = ('[["\\u0000"], {}]', "no JSON", "[[NaN], {}]", "[[1]]", "[[18446744073709551616], {}]", "{}")
DAY = 86400


def make(chance: random.Random) -> Any:
    from background_task.models import Task

    rare = chance.random() < 0.2
    run_at = NOW + timedelta(seconds=chance.choice((-3 * DAY, -5000, -1, 0, 1, 4000, 9 * DAY)))
    row = Task(
        task_name=PATH if chance.random() < 0.9 else chance.choice(("my name", "math.hypot", "gone.away")),
        task_params=chance.choice(BAD) if rare else json.dumps(chance.choice(PARAMS)),
        priority=chance.choice((0, 0, 5, -7, 100, 101, -1000)),
        run_at=run_at,
        repeat=chance.choice((0, 0, 60, 3600, DAY, 7 * DAY)),
        queue=chance.choice((None, "", "mail", "mail", "other")),
        attempts=chance.choice((0, 0, 3)),
        failed_at=NOW if chance.random() < 0.05 else None,
        last_error="Traceback\nValueError: it was this\n",
        verbose_name=chance.choice((None, "words of it")),
        creator_object_id=chance.choice((None, 7)),
    )
    if row.repeat and chance.random() < 0.7:
        late = chance.choice((-5000, -1, 0, 1, row.repeat, row.repeat + 1, 4 * row.repeat, 5 * row.repeat - 1))
        row.repeat_until = run_at + timedelta(seconds=late)
    if rare:
        row.locked_by, row.locked_at = "1", NOW - timedelta(seconds=chance.choice((1, 3599, 3601)))
    row.save()
    row.refresh_from_db()
    return row


def theirs_of(row: Any) -> list[Any]:
    """Return the call, the queue, the priority and the starts; nothing if it is never called."""
    from background_task.models import Task
    from background_task.settings import app_settings
    from background_task.tasks import Tasks

    clock = [NOW]
    calls: list[Any] = []
    starts: list[datetime] = []
    tasks = Tasks()
    tasks.background(name=PATH)(lambda *args, **kwargs: calls.append([list(args), kwargs]))
    with mock.patch("django.utils.timezone.now", side_effect=lambda: clock[0]):
        while len(starts) < STEPS and (found := Task.objects.first()):
            clock[0] = max(clock[0], found.run_at) + timedelta(microseconds=1)
            before = len(calls)
            tasks.run_next_task()
            if len(calls) == before:
                break
            starts.append(clock[0].replace(microsecond=0))
    Task.objects.all().delete()  # alone, for the runner runs whatever is due
    if not calls:
        return []
    first = row.priority if app_settings.BACKGROUND_TASK_PRIORITY_ORDERING == "-" else -row.priority
    return [*calls[0], row.queue or "default", max(-100, min(first, 100)), starts]


def compare(ordering: str, verdicts: Verdicts) -> None:
    from background_task.models import Task as Old
    from django.conf import settings

    from django_delayed_tasks import Task

    settings.BACKGROUND_TASK_PRIORITY_ORDERING = ordering
    Task._base_manager.all().delete()
    chance = random.Random(ordering)
    rows = [(row := make(chance), theirs_of(row)) for _ in range(ROWS)]
    for row, _theirs in rows:
        row.save(force_insert=True)
    imported("background-tasks", "--dry-run")
    assert (Old.objects.count(), Task.objects.count()) == (ROWS, 0)
    said = imported("background-tasks")
    tasks = {task.biz_num: task for task in Task.objects.all()}
    kept = {row.pk: row for row in Old.objects.all()}
    for row, theirs in rows:
        task = tasks.get(f"background-task-{row.pk}")
        words = said[f"{row.pk} ({row})"]
        stays = row.pk in kept and model_to_dict(kept[row.pk]) == model_to_dict(row)
        ours = [*call_of(task), task.priority, starts_of(task)] if task else []
        verdicts.judge("repeated" if row.repeat else "once", model_to_dict(row), words, theirs, ours, stays)
        said_more = [row.attempts, row.verbose_name or row.creator_object_id, abs(row.priority) > 100]
        assert not task or words.count("; ") == sum(map(bool, said_more)), (model_to_dict(row), words)
    count = Task.objects.count()
    assert not any(words.startswith("moved") for words in imported("background-tasks").values())
    assert Task.objects.count() == count
    Old.objects.all().delete()


def main() -> None:
    configure("background_task")
    logging.disable(logging.CRITICAL)
    verdicts = Verdicts()
    for ordering in ("DESC", "ASC"):
        compare(ordering, verdicts)
    verdicts.all_kinds_moved(("once", "repeated"))
    print(sorted(verdicts.counts.items()))


if __name__ == "__main__":
    main()
