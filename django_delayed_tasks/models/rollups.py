"""The models of what executors sum up, so that no page counts rows of big tables: statistics of runs, and a survey."""

from datetime import timedelta
from itertools import pairwise
from typing import Final

from django.apps import apps
from django.db import models
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.fields import AnyJSONField, ExactCharField
from django_delayed_tasks.states import RunOutcome

BOUNDS: Final = tuple(
    timedelta(seconds=seconds) for seconds in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600)
)
"""The upper bounds of the buckets of durations; a last bucket has everything above."""
LATE: Final = tuple(f"late_{number}" for number in range(len(BOUNDS) + 1))
TOOK: Final = tuple(f"took_{number}" for number in range(len(BOUNDS) + 1))
"""The columns of the buckets."""
ERROR_LENGTH: Final = 120
"""Characters of the error by which runs are counted: longer ones differ in what changes with each run."""

# Django's error would speak of the first model that is defined, and not of this app.
if apps.apps_ready and not apps.is_installed("django_delayed_tasks"):
    raise TaskException("django_delayed_tasks is not in INSTALLED_APPS: add it, and run `manage.py migrate`")
assert all(lower < upper for lower, upper in pairwise(BOUNDS))


class Statistic(models.Model):
    """The runs of a code that ended in one way within one period: their number, lateness and duration.

    ``grain`` is the length of the period in seconds: each run is counted in a minute, an hour and a day. Lateness is
    that of first attempts. Durations are in microseconds; ``late_0`` counts those up to the first of ``BOUNDS``.
    """

    id = models.BigAutoField(primary_key=True)
    grain = models.IntegerField(_("seconds of the period"))
    start = models.DateTimeField(_("start of the period"))
    biz_code = ExactCharField(_("code"), max_length=50)
    outcome = models.SmallIntegerField(_("outcome"), choices=RunOutcome)
    error = ExactCharField(_("error"), max_length=ERROR_LENGTH, blank=True, default="")
    runs = models.BigIntegerField(_("runs"), default=0)
    late_sum = models.BigIntegerField(_("sum of lateness"), default=0)
    late_max = models.BigIntegerField(_("longest lateness"), default=0)
    took_sum = models.BigIntegerField(_("sum of run time"), default=0)
    took_max = models.BigIntegerField(_("longest run time"), default=0)

    class Meta:
        verbose_name = _("statistic")
        verbose_name_plural = _("statistics")
        constraints = [
            models.UniqueConstraint(
                fields=["grain", "start", "biz_code", "outcome", "error"], name="ddt_statistic_identity"
            )
        ]

    def __str__(self) -> str:
        return f"{self.biz_code} {self.start} {self.grain}"


for _name in (*LATE, *TOOK):
    Statistic.add_to_class(_name, models.BigIntegerField(default=0))


class Overview(models.Model):
    """The latest survey of all tasks by the executors: the number of tasks of each status, and when they are due."""

    name = ExactCharField(_("name"), max_length=50, primary_key=True)
    taken_at = models.DateTimeField(_("taken"))
    data = AnyJSONField(_("data"))

    class Meta:
        verbose_name = _("overview")
        # The menu of the admin is sorted by these names: the space makes it the first.
        verbose_name_plural = format_lazy(" {}", _("Overview"))

    def __str__(self) -> str:
        return self.name
