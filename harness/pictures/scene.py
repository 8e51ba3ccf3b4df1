"""A shop at a bad moment: much waits, one queue has no executor, one is paused, and cards are declined."""

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from django_delayed_tasks.models import Executor, PausedQueue, Resource, Task, TaskRun
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.rollup import Cell

ALIAS: Final = "default"
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86400))
# The queue of each code, the seconds that a run takes, how many of its tasks wait, and how many run in a minute.
CODES: Final = {
    "send-newsletter": ("mail", 0.12, 900, 40),
    "cancel-unpaid-order": ("default", 0.03, 2600, 25),
    "remind-customer": ("mail", 0.2, 1500, 20),
    "crawl-page": ("crawl", 0.8, 1200, 22),
    "sync-stock": ("sync", 1.4, 400, 6),
    "charge-card": ("payments", 0.6, 200, 8),
    "render-invoice": ("slow", 4.0, 150, 2),
    "end-promotion": ("default", 0.05, 90, 1),
}
DECLINED: Final = "shop.gateways.Declined"
TIMED_OUT: Final = "requests.exceptions.ConnectTimeout"
_SITE: Final = "/srv/shop/.venv/lib/python3.13/site-packages/requests"
ERRORS: Final = (
    (
        37,
        'Traceback (most recent call last):\n  File "/srv/shop/payments/handlers.py", line 41, in handle\n'
        "    raise Declined(receipt.reason)\n"
        f"{DECLINED}: the card was declined by its bank: insufficient funds",
    ),
    (
        18,
        'Traceback (most recent call last):\n  File "/srv/shop/payments/handlers.py", line 38, in handle\n'
        "    receipt = gateway.charge(order.card, order.total)\n"
        f'  File "{_SITE}/sessions.py", line 637, in post\n    return self.request("POST", url, **kwargs)\n'
        f'  File "{_SITE}/adapters.py", line 688, in send\n    raise ConnectTimeout(e, request=request)\n'
        f"{TIMED_OUT}: HTTPSConnectionPool(host='gateway.example.org', port=443): Max retries exceeded",
    ),
    (
        6,
        'Traceback (most recent call last):\n  File "/srv/shop/payments/handlers.py", line 35, in handle\n'
        '    amount = task.biz_ext["amount"]\n'
        "KeyError: 'amount'",
    ),
)
"""What 61 cards could not be charged for, and how many of them."""


def fill(now: datetime) -> None:
    """Add the rows that the pages show at this moment."""
    random.seed(3)
    PausedQueue.objects.create(queue="crawl", paused_at=now - 6 * MINUTE)
    owners = list(executors(now))
    failed = list(failed_tasks(now))
    tasks = [*waiting_tasks(now), *late_tasks(now), *failed, *running_tasks(now, owners)]
    Task._base_manager.bulk_create(tasks, batch_size=1000)
    TaskRun.objects.bulk_create([run for task in failed for run in attempts(task, owners[2])])
    for number in range(6):
        busy = {"busy_before": now + HOUR, "holder": "lease", "host": "web2.example.org", "pid": 4711} if number else {}
        given = {"version": 1, "busy_before": now - HOUR, **busy}
        Resource.objects.create(pool="gateways", name=f"gateway{number}", **given)
    history(now)


def task_of(code: str, number: int | str, when: datetime, now: datetime, **fields: Any) -> Task:
    """Return a row as the store would have written it."""
    times = {"when": when, "claim_at": when, "create_time": now - 7 * HOUR, "update_time": now - 7 * HOUR}
    given = {"biz_code": code, "biz_num": str(number), "queue": CODES[code][0], "priority": 0, "version": 3}
    return Task(**{**given, **times, **fields})


def waiting_tasks(now: datetime) -> Iterator[Task]:
    """Yield tasks of the next weeks, most of them of the next hours, and a newsletter at midnight."""
    for code, (_, _, count, _) in CODES.items():
        for number in range(count):
            seconds = random.expovariate(1 / 7000) if number % 3 else random.uniform(0, 20 * 86400)
            yield task_of(code, f"{code[0].upper()}{1000 + number}", now + MINUTE + seconds * SECOND, now)
    midnight = (now + DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(24_000):
        yield task_of("send-newsletter", f"reader {number}", midnight, now)
    yield task_of("sync-stock", "every 5 minutes", now + 3 * MINUTE, now, trigger="Interval(minutes=5)")


def late_tasks(now: datetime) -> Iterator[Task]:
    """Yield tasks whose time has passed: nothing serves their queue, or it is paused."""
    for code, count, longest in (("render-invoice", 340, 780), ("crawl-page", 40, 300)):
        for number in range(count):
            yield task_of(code, f"late {number}", now - random.uniform(20, longest) * SECOND, now)


def failed_tasks(now: datetime) -> Iterator[Task]:
    """Yield a task that failed for good every three minutes."""
    errors = [error for count, error in ERRORS for _ in range(count)]
    random.shuffle(errors)
    for number, error in enumerate(errors, 1):
        at = now - number * 3 * MINUTE
        yield task_of(
            "charge-card", f"order {17_000 + number}", at - 3 * MINUTE, now, status=TaskStatus.FAILED, claim_at=at,
            update_time=at, attempts=3, last_error=error,
        )  # fmt: skip


def attempts(task: Task, owner: Executor) -> Iterator[TaskRun]:
    """Yield the runs of a task that has failed for good."""
    outcomes = (RunOutcome.RETRIED, RunOutcome.RETRIED, RunOutcome.FAILED)
    for attempt, outcome in enumerate(outcomes, 1):
        started = task.when + (attempt - 1) * MINUTE + timedelta(milliseconds=4)
        yield TaskRun(
            task_id=task.pk, version=attempt, biz_code=task.biz_code, biz_num=task.biz_num, when=task.when,
            attempt=attempt, outcome=outcome, started=started, finished=started + attempt * 0.7 * SECOND,
            error=task.last_error, executor=owner.pk,
        )  # fmt: skip


def executors(now: datetime) -> Iterator[Executor]:
    """Yield three that are alive, after one that has crashed."""
    codes = list(CODES)
    at = {"started_at": now - 5 * HOUR, "heartbeat_at": now, "expires_at": now + HOUR, "alive": True}
    crashed = at | {"heartbeat_at": now - 13 * MINUTE, "expires_at": now - 13 * MINUTE, "alive": None}
    shared: dict[str, Any] = {"pid": 4711, "threads": 8, "version": "0.1.0", "codes": codes, "exclude_queues": []}
    Executor.objects.create(
        name="batch-1", host="batch.example.org", queues=["slow"], status=ExecutorStatus.CRASHED, **shared, **crashed
    )
    for name, queues in (
        ("web1-1", ["default", "mail"]),
        ("web1-2", ["default", "mail"]),
        ("web2-1", ["mail", "crawl", "payments", "sync"]),
    ):
        host = f"{name.partition('-')[0]}.example.org"
        yield Executor.objects.create(
            name=name, host=host, queues=queues, status=ExecutorStatus.RUNNING, **shared, **at
        )


def running_tasks(now: datetime, owners: list[Executor]) -> Iterator[Task]:
    running = (
        ("sync-stock", "warehouse 7", 135, 0.62, "shelf 1240 of 2000"), ("crawl-page", "example.org", 48, None, None),
        ("send-newsletter", "November", 12, 0.2, "batch 3"), ("charge-card", "order 18204", 4, None, None),
    )  # fmt: skip
    for place, (code, number, seconds, fraction, note) in enumerate(running):
        since = now - seconds * SECOND
        owner = owners[2 if code in ("sync-stock", "crawl-page", "charge-card") else place % 2]
        yield task_of(
            code, number, since, now, status=TaskStatus.RUNNING, attempts=1, update_time=since, executor=owner.pk,
            progress_fraction=fraction, progress_note=note, progress_at=now if fraction else None,
        )  # fmt: skip


def history(now: datetime) -> None:
    """Count the runs of a week, as executors would have counted them; those of the last two hours by the minute."""
    for hour in range(168, 1, -1):
        rollup.add(ALIAS, counts(now - hour * HOUR, 6, is_late=False), now - hour * HOUR)
    for minute in range(120, -1, -1):
        at = now - minute * MINUTE
        rollup.add(ALIAS, counts(at, 1, is_late=10 < minute < 22) | failures(minute), at)


def counts(at: datetime, times: int, is_late: bool) -> dict[tuple[str, int, str], Cell]:
    """Return the runs that were done in a period: more by day than at night."""
    level = times * (1.2 + math.sin((at.hour - 8) / 12 * math.pi))
    late = 0.9 if is_late else 0.008
    return {
        (code, int(RunOutcome.DONE), ""): cell(int(level * rate * random.uniform(0.8, 1.2)), late, took)
        for code, (_, took, _, rate) in CODES.items()
    }


def failures(minute: int) -> dict[tuple[str, int, str], Cell]:
    if minute > 45:
        return {}
    return {
        ("charge-card", int(RunOutcome.FAILED), DECLINED): cell(1 + minute % 2, 0.008, 0.7),
        ("charge-card", int(RunOutcome.RETRIED), TIMED_OUT): cell(random.randint(1, 4), 0.008, 10),
        ("crawl-page", int(RunOutcome.RETRIED), "shop.web.TooManyRequests"): cell(minute % 3, 0.008, 1),
    }


def cell(runs: int, late: float, took: float) -> Cell:
    """Return the counts of some runs whose lateness and duration, in seconds, vary around these."""
    found = Cell()
    for _ in range(runs):
        late_by, taken = (random.lognormvariate(math.log(middle), 0.7) for middle in (late, took))
        found.count(1, [late_by * SECOND], [taken * SECOND])
    return found
