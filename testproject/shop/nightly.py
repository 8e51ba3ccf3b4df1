"""What the shop does every night. ``TASK_HANDLERS`` names it: one project of several on this database is to do it."""

from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks import Cron, Done, TaskHandler
from testproject.shop import codes, conf, services

LAG = timedelta(seconds=10)
"""A payment has a moment before it is committed; by then it is."""


class NightlyReport(TaskHandler):
    """What was sold since the last report, at 03:00 by the clock on the shop's wall, summer and winter.

    Each report begins where the one before it ended, which is the task's own data. So nights that were missed need no
    runs of their own: ``misfire="coalesce"`` makes one report of them. And a report that would begin after 09:00, when
    people are in the shop and need the database, had better be part of the next one: ``max_lateness``. Nothing is left
    out either way.
    """

    biz_code = codes.NIGHTLY_REPORT
    trigger = Cron(conf.report_times(), tz=conf.time_zone(), misfire="coalesce")
    max_lateness = timedelta(hours=6)
    priority = -10  # no customer waits for it

    def handle(self, task: Any) -> Done:
        last = (task.biz_ext or {}).get("until")
        report = services.sales(last and datetime.fromisoformat(last), task.when - LAG)
        return Done(result=report, biz_ext={"until": report["until"]})
