"""What is printed at the end."""

import math
from collections.abc import Sequence
from datetime import timedelta

from testproject.demo.book import Book, Fate
from testproject.demo.checks import CHECKS, Rows

SHOWN_PROBLEMS = 5


def print_events(book: Book) -> None:
    print("\nWhat happened:")
    for event, count in sorted(book.tally().items()):
        print(f"  {count:5d}  {event}")


def print_lateness(rows: Rows) -> None:
    """Print, from the shop's rows, how late tasks were that succeeded at the first attempt."""
    by_tasks = [row for row, expected in rows.promotion_pairs() if not expected.by_hand]
    ended = [row.lateness for row in by_tasks if row.lateness is not None]
    cancelled = [
        row.cancelled_at - row.pay_by
        for row, expected in rows.order_pairs()
        if row.cancelled_at and expected.fate is Fate.UNPAID and not expected.flaky
    ]
    print("\nHow late, in milliseconds:                    p50      p99      max")
    print(f"  {len(ended):4d} promotions, ended_at - ends_at      {figures(ended)}")
    print(f"  {len(cancelled):4d} orders, cancelled_at - pay_by       {figures(cancelled)}")


def figures(values: Sequence[timedelta]) -> str:
    chosen = (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0))
    return " ".join(f"{value / timedelta(milliseconds=1):8.1f}" for value in chosen)


def percentile(values: Sequence[timedelta], share: float) -> timedelta:
    """The smallest value that the given share of the values does not exceed."""
    if not values:
        return timedelta(0)
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def print_checks(rows: Rows) -> bool:
    """Whether all holds."""
    print("\nWhat must hold:")
    results = [print_check(check.__doc__ or "", list(check(rows))) for check in CHECKS]
    return all(results)


def print_check(claim: str, problems: Sequence[str]) -> bool:
    print(f"  {'FAILED' if problems else 'ok':6s}  {claim}")
    for problem in problems[:SHOWN_PROBLEMS]:
        print(f"            {problem}")
    if len(problems) > SHOWN_PROBLEMS:
        print(f"            and {len(problems) - SHOWN_PROBLEMS} more")
    return not problems
