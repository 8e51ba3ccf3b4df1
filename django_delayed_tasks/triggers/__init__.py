"""Triggers, which compute the next time of a recurring task by pure datetime arithmetic: no database, no clock.

>>> Cron("0 3 * * *", tz="Europe/Berlin").preview(3)
>>> Interval(minutes=30, every="finish")
>>> Once(datetime(2027, 1, 1, tzinfo=UTC))
"""

from django_delayed_tasks.triggers.base import MAX_TEXT, Misfire, Once, Trigger
from django_delayed_tasks.triggers.cron import Cron
from django_delayed_tasks.triggers.interval import Every, Interval
from django_delayed_tasks.triggers.misfires import next_run, next_time, run_to_start, time_of
from django_delayed_tasks.triggers.text import parse, parse_stored

__all__ = [
    "MAX_TEXT",
    "Cron",
    "Every",
    "Interval",
    "Misfire",
    "Once",
    "Trigger",
    "next_run",
    "next_time",
    "parse",
    "parse_stored",
    "run_to_start",
    "time_of",
]
