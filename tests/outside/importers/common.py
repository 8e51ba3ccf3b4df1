"""What the programs share."""

import tempfile
from collections import Counter
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from unittest import mock

import django
from django.conf import settings

NOW = datetime.now(UTC).replace(microsecond=0)
STEPS = 12
"""The number of times that are compared for each row."""
BACKEND = {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend", "QUEUES": ["default", "mail"]}


def configure(app: str, **more: Any) -> None:
    """Set up a project with a database of its own, which has all tables."""
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"{tempfile.mkdtemp()}/db.sqlite3",
        "OPTIONS": {"init_command": "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY"},
    }
    settings.configure(
        **{
            "SECRET_KEY": "secret",
            "USE_TZ": True,
            "INSTALLED_APPS": [
                "django.contrib.contenttypes",
                "django.contrib.auth",
                "django_delayed_tasks",
                "django_delayed_tasks.importers",
                app,
            ],
            "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
            "DATABASES": {"default": database},
            "TASKS": {"default": BACKEND},
            "DELAYED_TASKS": {"FUNCTION_MODULES": ["tests.outside.importers"]},
            **more,
        }
    )
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def imported(library: str, *options: str, now: datetime = NOW) -> dict[str, str]:
    """Run the command at this moment; return what it said, by the words before the colon."""
    from django.core.management import call_command

    out = StringIO()
    with mock.patch("django.utils.timezone.now", return_value=now):
        call_command("importtasks", library, *options, stdout=out)
    return dict(line.split(": ", 1) for line in out.getvalue().splitlines() if ": " in line)


def starts_of(task: Any) -> list[datetime]:
    """Return when a task that was moved starts, if executors are there from now on and runs take no time."""
    from django_delayed_tasks.triggers import next_run, parse, run_to_start

    found: list[datetime] = []
    when, now = task.when, NOW
    trigger = parse(task.trigger_text) if task.trigger_text else None
    while when is not None and len(found) < STEPS:
        now = max(now, when)
        found.append(now.replace(microsecond=0))
        stands_for = trigger and run_to_start(trigger, when, now)
        when = trigger and stands_for and next_run(trigger, stands_for, now, now)
    return found


def call_of(task: Any) -> list[Any]:
    """Return how a task that was moved calls its function, and in which queue."""
    return [task.biz_ext["args"], task.biz_ext["kwargs"], task.queue]


class Verdicts:
    """What became of the rows: no difference may be silent, and no kind may always be left."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, bool]] = Counter()

    def judge(self, kind: str, row: Any, said: str, theirs: list[Any], ours: list[Any], stays: bool) -> None:
        """Compare one row: ``theirs`` and ours are its call and its starts; ``stays``, whether it is unchanged."""
        moved = said.startswith("moved: ")
        self.counts[kind, moved] += 1
        if moved:
            assert not stays, (row, said)
            if "at changes of daylight saving time" in said:
                theirs, ours = theirs[:3], ours[:3]
            assert ours == theirs, (row, said, theirs, ours)
        else:
            assert said.startswith("left: "), (row, said)
            assert len(said) > len("left: "), row
            assert (stays, ours) == (True, []), (row, said)

    def all_kinds_moved(self, kinds: Any) -> None:
        never = [kind for kind in kinds if not self.counts[kind, True]]
        assert not never, never
