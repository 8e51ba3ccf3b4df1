"""Whether the shop's rows are what the customers were told. Every check gives back what it found wrong."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from django_delayed_tasks import Task, get_runs
from django_delayed_tasks.states import RunOutcome
from testproject.demo.book import Book, ExpectedOrder, ExpectedPromotion, Fate
from testproject.shop import codes
from testproject.shop.models import MAX_REMINDERS, Order, Promotion, Reminder
from testproject.shop.warehouse import FAILURES_OF_A_FLAKY_ORDER

BOUND = timedelta(seconds=5)
"""Later than this is a failure: far above what is usual, yet no delay that a customer would notice."""
FLAKY_BOUND = 3 * BOUND + timedelta(seconds=3)
"""Three attempts, each within the bound; the waits between them take 1 s and 2 s."""

EVENTS = [
    {"left alone"},
    {"extended"},
    {"shortened"},
    {"ended by hand"},
    {"extended at the last moment", "extended too late"},
    {"never paid"},
    {"paid"},
    {"withdrawn"},
    {"failed and retried"},
    {"paid after a failed attempt"},
    {"paid at the last moment", "paid too late"},
    {"bad input refused"},
]
"""One of each set must have happened; for some sets, chance decides which."""


class Rows(NamedTuple):
    """The shop's rows of one demonstration, and what was expected of them."""

    book: Book
    promotions: list[Promotion]
    orders: list[Order]
    reminder_every: timedelta

    def promotion_pairs(self) -> Iterator[tuple[Promotion, ExpectedPromotion]]:
        expected = self.book.promotions
        return ((row, expected[row.pk]) for row in self.promotions if row.pk in expected)

    def order_pairs(self) -> Iterator[tuple[Order, ExpectedOrder]]:
        expected = self.book.orders
        return ((row, expected[row.pk]) for row in self.orders if row.pk in expected)


Check = Callable[[Rows], Iterator[str]]


def nothing_else_was_made(rows: Rows) -> Iterator[str]:
    """every promotion and order that was asked for is there, and no other"""
    for name, found, expected in (
        ("promotion", rows.promotions, rows.book.promotions),
        ("order", rows.orders, rows.book.orders),
    ):
        for number in sorted({row.pk for row in found} ^ set(expected)):
            yield f"{name} {number} is there or expected, but not both"


def promotions_ended_at_their_last_time(rows: Rows) -> Iterator[str]:
    """every promotion ended at its last scheduled time, not before it"""
    for row, expected in rows.promotion_pairs():
        if not expected.earliest <= row.ends_at <= expected.latest:
            yield f"promotion {row.pk} was to end at {expected.earliest}, but is planned for {row.ends_at}"
        if row.ended_at is None:
            yield f"promotion {row.pk} has not ended"
        elif not row.ends_at <= row.ended_at <= row.ends_at + BOUND:
            yield f"promotion {row.pk} ended at {row.ended_at} instead of {row.ends_at}"


def promotions_ended_by_one_run(rows: Rows) -> Iterator[str]:
    """one run ended each promotion, none if it was ended by hand"""
    for row, expected in rows.promotion_pairs():
        done = get_runs(codes.END_PROMOTION).filter(biz_num=str(row.pk), outcome=RunOutcome.DONE).count()
        if done != (0 if expected.by_hand else 1) and not expected.contested:
            yield f"promotion {row.pk} was ended by {done} runs"


def unpaid_orders_are_cancelled(rows: Rows) -> Iterator[str]:
    """every unpaid order was cancelled in time, not before it"""
    for row, expected in rows.order_pairs():
        if expected.fate is not Fate.UNPAID:
            continue
        bound = FLAKY_BOUND if expected.flaky else BOUND
        if row.state != Order.State.CANCELLED or row.cancelled_at is None:
            yield f"order {row.pk} was not paid, but is {row.state}"
        elif not row.pay_by <= row.cancelled_at <= row.pay_by + bound:
            yield f"order {row.pk} was cancelled at {row.cancelled_at} instead of {row.pay_by}"


def paid_orders_are_untouched(rows: Rows) -> Iterator[str]:
    """no paid order was touched, and withdrawn ones stayed withdrawn"""
    for row, expected in rows.order_pairs():
        found = (row.state, row.paid_at is not None, row.cancelled_at is not None)
        if expected.fate is Fate.PAID and found != (Order.State.PAID, True, False):
            yield f"order {row.pk} was paid, but is {row.state}"
        if expected.fate is Fate.WITHDRAWN and found != (Order.State.CANCELLED, False, True):
            yield f"order {row.pk} was withdrawn, but is {row.state}"


def flaky_orders_were_retried(rows: Rows) -> Iterator[str]:
    """every cancellation that failed was tried again until it succeeded"""
    retried, done = RunOutcome.RETRIED, RunOutcome.DONE
    wanted = [*[retried] * FAILURES_OF_A_FLAKY_ORDER, done]
    for row, expected in rows.order_pairs():
        if expected.fate is not Fate.UNPAID:
            continue
        runs = get_runs(codes.CANCEL_UNPAID_ORDER).filter(biz_num=str(row.pk)).order_by("pk")
        outcomes = [RunOutcome(outcome) for outcome in runs.values_list("outcome", flat=True)]
        if outcomes != (wanted if expected.flaky else [done]):
            words = ", ".join(str(outcome.label) for outcome in outcomes)
            yield f"order {row.pk}: the runs of its cancellation were {words or 'none'}"


def reminders_were_sent(rows: Rows) -> Iterator[str]:
    """reminders were sent as often as due, and none after the order was closed"""
    for row, _ in rows.order_pairs():
        sent = list(row.reminders.all())
        closed = row.closed_at or row.pay_by
        least, most = reminders_due(closed - row.placed_at, rows.reminder_every)
        if not least <= len(sent) <= most:
            yield f"order {row.pk}: {len(sent)} reminders, expected {least} to {most}"
        if [reminder.number for reminder in sent] != list(range(1, len(sent) + 1)):
            yield f"order {row.pk}: reminders {[reminder.number for reminder in sent]}"
        if any(later - earlier < rows.reminder_every for earlier, later in pairwise(moments(row, sent))):
            yield f"order {row.pk}: a reminder came too soon"
        if any(reminder.sent_at > closed for reminder in sent):
            yield f"order {row.pk}: a reminder came after it was closed"


def reminders_due(open_for: timedelta, every: timedelta) -> tuple[int, int]:
    """Return the least and the greatest number: each comes ``every`` after the one before, and up to BOUND later."""
    return min(MAX_REMINDERS, open_for // (every + BOUND)), min(MAX_REMINDERS, open_for // every)


def moments(order: Order, sent: list[Reminder]) -> list[timedelta]:
    """Return when something happened, from the order's placing on."""
    return [timedelta(0), *(reminder.sent_at - order.placed_at for reminder in sent)]


def nothing_is_left(rows: Rows) -> Iterator[str]:
    """no task is left waiting, running or failed"""
    for task in open_tasks(rows.book):
        yield f"{task} is still {task.get_status_display()}"


def everything_happened(rows: Rows) -> Iterator[str]:
    """each kind of story happened"""
    for events in EVENTS:
        if not events & set(rows.book.events):
            yield f"nothing was {' or '.join(sorted(events))}"


def open_tasks(book: Book) -> list[Task]:
    """The tasks of the demonstration that are not done."""
    tasks = Task.objects.filter(biz_code__in=codes.ALL).exclude(biz_code=codes.NIGHTLY_REPORT)  # which recurs
    return [
        task
        for task in tasks
        if int(task.biz_num) in (book.promotions if task.biz_code == codes.END_PROMOTION else book.orders)
    ]


CHECKS: list[Check] = [
    nothing_else_was_made,
    everything_happened,
    promotions_ended_at_their_last_time,
    promotions_ended_by_one_run,
    unpaid_orders_are_cancelled,
    paid_orders_are_untouched,
    flaky_orders_were_retried,
    reminders_were_sent,
    nothing_is_left,
]
