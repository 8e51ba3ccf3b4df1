"""The shop and a real executor, on every database."""

import subprocess
import sys
from datetime import timedelta

from django_delayed_tasks import Task, get_runs
from django_delayed_tasks.states import RunOutcome, TaskStatus
from testproject.shop import codes, services
from testproject.shop.models import Order, Product
from tests.shop.helpers import fresh, place_order, scheduled, start_promotion

AT_ONCE = timedelta(milliseconds=20)
"""Over long before a process has started, so that everything is due by then."""


def drain(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "django", "starttask", "--drain"]
    done = subprocess.run(command, env=environment, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_due_happens(live_db: str, process_environment: dict[str, str], product: Product) -> None:
    other = Product.objects.create(name="Desk", price=90)
    ending, extended = start_promotion(product, AT_ONCE), start_promotion(other, AT_ONCE * 50)
    services.move_promotion_end(extended.pk, extended.ends_at + timedelta(hours=1))
    unpaid, paid = place_order(product, AT_ONCE), services.pay_order(place_order(product, AT_ONCE * 50).pk)
    flaky = place_order(product, AT_ONCE, flaky=True)

    drain(process_environment)

    assert fresh(ending).lateness > timedelta(0)
    assert fresh(extended).is_running
    assert scheduled(extended.pk)[codes.END_PROMOTION] == extended.ends_at + timedelta(hours=1)
    assert fresh(unpaid).state == Order.State.CANCELLED
    assert fresh(unpaid).cancelled_at > unpaid.pay_by
    assert fresh(paid).state == Order.State.PAID
    assert fresh(flaky).is_open
    assert fresh(flaky).warehouse_failures == 1
    task = Task.objects.get(biz_code=codes.CANCEL_UNPAID_ORDER)
    assert (task.biz_num, task.status, task.attempts) == (str(flaky.pk), TaskStatus.PENDING, 1)
    runs = get_runs(codes.CANCEL_UNPAID_ORDER).filter(biz_num=str(flaky.pk))
    assert "WarehouseUnavailable: no answer" in runs.get(outcome=RunOutcome.RETRIED).error


def test_reminders_follow_one_another(live_db: str, process_environment: dict[str, str], product: Product) -> None:
    order = place_order(product)
    Task.objects.filter(biz_code=codes.REMINDER).update(claim_at=order.placed_at)

    drain(process_environment)

    assert list(order.reminders.values_list("number", flat=True)) == [1]
    (again,) = Task.objects.filter(biz_code=codes.REMINDER)
    assert again.biz_ext == {"sent": 1}
    sent_at = order.reminders.get().sent_at
    assert timedelta(0) <= again.when - sent_at - timedelta(minutes=1) < timedelta(seconds=30)
