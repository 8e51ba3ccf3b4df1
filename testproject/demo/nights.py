"""The nightly reports, of nights that follow one another in seconds."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from django_delayed_tasks import get_runs
from django_delayed_tasks.states import RunOutcome
from testproject.shop import codes
from testproject.shop.models import Order

LEAST = 3
"""Reports of one demonstration."""


def report_problems(opened_at: datetime) -> Iterator[str]:
    """each night had one report, and the reports leave nothing out and count nothing twice"""
    runs = list(get_runs(codes.NIGHTLY_REPORT).filter(when__gte=opened_at).order_by("when", "id"))
    for run in runs:
        if run.outcome != RunOutcome.DONE:
            yield f"the report of {run.when}: {run.get_outcome_display()}"
    reports = [run.result for run in runs if run.outcome == RunOutcome.DONE]
    if len(reports) < LEAST:
        yield f"there were {len(reports)} reports"
        return
    if len({run.when for run in runs}) < len(runs):
        yield "one night had two reports"
    for earlier, later in pairwise(reports):
        if later["since"] != earlier["until"]:
            yield f"a report begins at {later['since']}, the one before it ended at {earlier['until']}"
    told = sum(report["paid"] for report in reports)
    orders = Order.objects.filter(paid_at__lt=datetime.fromisoformat(reports[-1]["until"]))
    if since := reports[0]["since"]:
        orders = orders.filter(paid_at__gte=datetime.fromisoformat(since))
    if told != orders.count():
        yield f"the reports tell of {told} payments, but there were {orders.count()}"
