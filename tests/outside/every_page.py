"""Every page of the admin, with rows of every kind on it."""

from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from django_delayed_tasks.models import Resource, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin.rows import HOUR, executor, list_of, new_task, page_of, run, task

FUNCTION = "shop.warehouse.tasks.synchronize_the_stock"
ERROR = "shop.gateways.Declined: the card was declined by its bank"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/venv/lib/python3.13/site-packages/requests/api.py", line 9, in get\n'
    f'    send()\n  File "/srv/shop/payments.py", line 17, in charge\n    raise Declined(card)\n{ERROR}'
)


def every_page() -> list[str]:
    """Add rows; return the address of each page that shows some of them."""
    lists = [list_of(model) for model in ("overview", "task", "taskrun", "executor", "pausedqueue", "resource")]
    others = ("index", "django_delayed_tasks_task_errors", "django_delayed_tasks_task_add")
    return [*lists, *(reverse(f"admin:{name}") for name in others), *_pages_of_rows()]


def _pages_of_rows() -> list[str]:
    now = timezone.now()
    Task._base_manager.bulk_create(new_task(f"https://example.org/products/{i}?page=2") for i in range(30))
    of_row: dict[str, Any] = {"create_time": now - 3 * HOUR, "update_time": now - timedelta(minutes=2)}
    owner = executor("web3", started_at=now - HOUR, heartbeat_at=now, expires_at=now + HOUR, version="0.1.0")
    failed = task(
        "order 2", status=TaskStatus.FAILED, claim_at=now - HOUR, biz_code="charge-card", queue="pay", attempts=3,
        last_error=TRACEBACK, biz_ext={"amount": 17}, **of_row,
    )  # fmt: skip
    running = task(
        "nightly import", now - HOUR, status=TaskStatus.RUNNING, executor=owner.pk, attempts=1, progress_at=now,
        progress_fraction=0.42, progress_note="row 420 of 1000", biz_code="fetch-page", **of_row,
    )  # fmt: skip
    recurring = task("report", now + HOUR, trigger="Cron('0 3 * * *', tz='Europe/Berlin')", **of_row)
    function = task("8c1f6a9e-61c5-4f5e-9b0a-2f6a0f2d1c11", now - HOUR, biz_code=FUNCTION, queue="pictures", **of_row)
    pool = Resource.objects.create(
        pool="gateways", name="gateway1.example.org:8080", host="web3.example.org", pid=4711, holder="lease",
        busy_before=now + HOUR, acquired_at=now - HOUR, renewed_at=now, version=1_795_539_240_000,
    )  # fmt: skip
    last = _run_of(failed, now)
    run("nightly", biz_code=FUNCTION, attempt=3, executor=owner.pk, error=TRACEBACK, finished=now)
    rows: list[Any] = [failed, running, recurring, function, last, owner, pool]
    return [*(page_of(row) for row in rows), page_of(failed, "delete"), page_of(failed, "history")]


def _run_of(failed: Any, now: Any) -> TaskRun:
    began = now - 3 * HOUR
    return run(
        failed.biz_num, RunOutcome.FAILED, task_id=failed.pk, biz_code=failed.biz_code, attempt=3, error=TRACEBACK,
        when=began, started=began, finished=began + timedelta(seconds=1.8),
    )  # fmt: skip
