"""Schedules of django-q2: its own ``scheduler`` and ``async_task`` say what they would call, and when."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from unittest import mock

from django.forms import model_to_dict

from tests.outside.importers.common import NOW, STEPS, Verdicts, call_of, configure, imported, starts_of

ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin")
ARGS = (
    "7", "'a', 1", "(7,)", "()", "", None, "[1, 2]", "{'a': 1}", "1, [2, (3,)]", " 7", "None", "b'x'", "-1, 2.5",
    "{1: 'a'}", "1e999", "'\\x00'", "{1, 2}", "not python", "f(1)",
)  # fmt: skip
KWARGS = (
    "{}", "", None, "{'full': True}", "full=True", "full=True, shop='x'", "{'full': (1,)}", "5, full=True",
    "group='a'", "cluster='mail'", "{'q_options': {'group': 'g'}}", "q_options={'cluster': 'mail'}", "task_name='x'",
    "q_options={'broker_name': 'mail'}", "full=unknown", "7", "timeout=5", "**{'a': 1}", "{1: 2}", "hook='a.b'",
    "{'q_options': {'timeout': 9}}", "save=False, full=1", "{'q_options': 3}",
)  # fmt: skip
CRONS = (
    "0 9 * * *", "*/20 * * * *", "0 9 * * 1 0", "30 9 * * 1 15", "* * * * * */20", "0 0 L * *", "0 0 * * L5",
    "0 0 * * 5#3", "0 0 * * 1#1,3#2", "0 0 * * mon-fri", "0 0 * * fri-mon", "0 0 */2 * 1", "0 0 1-31 * 1",
    "0 0 13 * fri", "0 22-2 * * *", "0 0 1 nov-feb *", "@daily", "@hourly", "5/15 * * * *", "0 0 29 2 *", "0 0 * * 7",
    "0 0 * * 0-7", "0 0 L,15 * *", "R 3 * * *", "0 0 1 1 * 0 2030", "1-59/3 0 1 * *", "@reboot", "nonsense",
    "0 0 * * 1 0 *", "1-59 * * * 1",
)  # fmt: skip
KINDS = ("O", "I", "H", "D", "W", "BW", "M", "BM", "Q", "Y", "C")
DAYS = ((2026, 12, 31), (2027, 1, 29), (2027, 1, 31), (2027, 2, 28), (2027, 3, 28), (2028, 2, 29), (2027, 6, 15))


def a_moment(chance: random.Random) -> datetime | None:
    if chance.random() < 0.05:
        return None
    if chance.random() < 0.3:
        return NOW - timedelta(minutes=chance.randrange(1, 5000))
    clock = (chance.choice((0, 9, 17, 23)), chance.choice((0, 30)), chance.choice((0, 0, 7)))
    return datetime(*chance.choice(DAYS), *clock, tzinfo=UTC)


def make(chance: random.Random, kind: str, number: int) -> Any:
    from django_q.models import Schedule

    rare = chance.random() < 0.25
    row = Schedule(
        name=chance.choice((None, "nightly", "n" * 100)),
        func="tests.outside.importers.functions.send" if chance.random() < 0.95 else "math.hypot",
        schedule_type=kind,
        args=chance.choice(ARGS) if rare else chance.choice(ARGS[:9]),
        kwargs=chance.choice(KWARGS) if rare else chance.choice(KWARGS[:7]),
        minutes=chance.choice((None, 0, 1, 7, 90)),
        repeats=chance.choice((-1, -1, -1, -5, 0, 1, 2, 5)),
        cluster=chance.choice((None, "mail", "default", "", "other")) if rare else None,
        hook="a.b" if chance.random() < 0.03 else None,
        intended_date_kwarg="when" if chance.random() < 0.03 else None,
        cron=CRONS[number % len(CRONS)] if kind == "C" else None,
        next_run=NOW,
    )
    row.pk = 1 + number  # a schedule without a key computes its next time when it is saved
    row.next_run = a_moment(chance)
    row.save(force_insert=True)
    row.refresh_from_db()
    return row


def theirs_of(row: Any) -> list[Any]:
    """Return the call, the queue, and the starts; nothing if django-q2 never calls it."""
    from django_q import models, scheduler, tasks
    from django_q.conf import Conf
    from django_q.models import Schedule
    from django_q.signing import SignedPackage
    from django_q.utils import localtime

    clock = [NOW]
    packages: list[Any] = []
    queues: list[str] = []

    def broker_of(cluster: str | None = None) -> Any:
        queues.append(cluster or "default")
        return SimpleNamespace(enqueue=packages.append, list_key=cluster)

    def local(moment: datetime | None = None) -> datetime:
        found: datetime = localtime(moment or clock[0])
        return found

    starts: list[datetime] = []
    own = broker_of("default")
    with (
        mock.patch.object(scheduler.timezone, "now", side_effect=lambda: clock[0]),
        mock.patch.object(scheduler, "localtime", local),
        mock.patch.object(models, "localtime", local),
        mock.patch.object(tasks, "get_broker", broker_of),
        mock.patch.object(Conf, "CLUSTER_NAME", row.cluster or "default"),
    ):
        while len(starts) < STEPS:
            found = Schedule.objects.filter(pk=row.pk).first()
            if found is None or found.next_run is None:
                break
            clock[0] = max(clock[0], found.next_run) + timedelta(microseconds=1)
            before = len(packages)
            scheduler.scheduler(broker=own)
            if len(packages) == before:
                break
            starts.append(clock[0].replace(microsecond=0))
    Schedule.objects.all().delete()  # alone, for the scheduler runs whatever is due
    if not packages:
        return []
    package = SignedPackage.loads(packages[0])
    queue = package.get("cluster") or "default"
    return [_json(list(package["args"])), _json(package["kwargs"]), queue, starts]


def _json(value: Any) -> Any:
    """Return what a function gets that is called with JSON."""
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    if isinstance(value, dict):
        return {key: _json(each) for key, each in value.items()}
    return value.decode() if isinstance(value, bytes) else value


def compare(kinds: Sequence[str], zone: str, catches_up: bool, verdicts: Verdicts) -> None:
    from django_q.conf import Conf
    from django_q.models import Schedule

    from django_delayed_tasks import Task

    chance = random.Random(f"{zone} {catches_up}")
    Schedule.objects.all().delete()
    Task._base_manager.all().delete()
    Conf.TIME_ZONE, Conf.CATCH_UP = zone, catches_up
    rows = []
    for number, kind in enumerate(kinds):
        rows.append((row := make(chance, kind, number), theirs_of(row)))
    for row, _ in rows:
        row.save(force_insert=True)
    imported("django-q2", "--dry-run")
    assert (Schedule.objects.count(), Task.objects.count()) == (len(kinds), 0)
    said = imported("django-q2")
    tasks = {task.biz_num: task for task in Task.objects.all()}
    kept = {row.pk: row for row in Schedule.objects.all()}
    for row, theirs in rows:
        words = said[f"schedule {row.pk} ({row.name or row.func})"]
        task = tasks.get(f"{(row.name or 'schedule')[:80]}-{row.pk}")
        stays = row.pk in kept and model_to_dict(kept[row.pk]) == model_to_dict(row)
        ours = [*call_of(task), starts_of(task)] if task else []
        verdicts.judge(row.schedule_type, model_to_dict(row), words, theirs, ours, stays)
    count = Task.objects.count()
    again = imported("django-q2")
    assert not any(words.startswith("moved") for words in again.values())
    assert Task.objects.count() == count


QUEUED: tuple[tuple[tuple[Any, ...], dict[str, Any], list[Any] | None], ...] = (
    ((), {}, [[], {}, "default"]),
    ((7, "a"), {"full": True}, [[7, "a"], {"full": True}, "default"]),
    (((1, 2), NOW, Decimal("1.10")), {}, [[[1, 2], NOW.isoformat(), "1.10"], {}, "default"]),
    ((7,), {"cluster": "mail", "group": "g", "save": True}, [[7], {}, "mail"]),
    ((7,), {"q_options": {"task_name": "x", "cluster": "mail"}, "full": 1}, [[7], {"full": 1}, "mail"]),
    ((7,), {"hook": "a.b"}, None),
    ((7,), {"q_options": {"timeout": 5}}, None),
    (({1, 2},), {}, None),
    ((7,), {"cluster": "other"}, None),
)
"""Calls of ``async_task``, and what they become: the call and the queue; None: they stay."""


def compare_queued(verdicts: Verdicts) -> None:
    """Move what waits in the queue, and leave what a cluster runs or what cannot be read."""
    from django_q.conf import Conf
    from django_q.models import OrmQ
    from django_q.tasks import async_task

    from django_delayed_tasks import Task
    from tests.outside.importers.functions import send

    Conf.TIME_ZONE = "UTC"
    Task._base_manager.all().delete()
    path = send.module_path
    keys = [async_task(path, *args, **kwargs) for args, kwargs, _expected in QUEUED]
    running = [async_task(path), "unreadable"]
    now = datetime.now(UTC) + timedelta(minutes=1)
    OrmQ.objects.filter(pk=OrmQ.objects.latest("pk").pk).update(lock=now + timedelta(hours=1))
    OrmQ.objects.create(key="default", payload="no package", lock=NOW)
    rows = {row.task_id() if row.task.get("name") else "unreadable": row for row in OrmQ.objects.all()}
    said = imported("django-q2", now=now)
    for key, expected in [*zip(keys, (each[2] for each in QUEUED), strict=True), *((key, None) for key in running)]:
        row = rows[key]
        words = said[f"task {row.pk} ({row.task.get('name') or row.task['id']})"]
        task = Task.objects.filter(biz_num=key).first()
        stays = OrmQ.objects.filter(pk=row.pk, payload=row.payload, lock=row.lock).exists()
        verdicts.judge("queued", key, words, expected or [], call_of(task) if task else [], stays)
        assert bool(task) == bool(expected), words


def main() -> None:
    import logging

    configure("django_q", Q_CLUSTER={"orm": "default", "timeout": 60, "retry": 90}, TIME_ZONE="UTC")
    logging.disable(logging.CRITICAL)
    verdicts = Verdicts()
    for zone in ZONES:
        for catches_up in (True, False):
            compare(KINDS, zone, catches_up, verdicts)
    compare(["C"] * len(CRONS), "UTC", True, verdicts)
    compare_queued(verdicts)
    verdicts.all_kinds_moved([*KINDS, "queued"])
    print(sorted(verdicts.counts.items()))


if __name__ == "__main__":
    main()
