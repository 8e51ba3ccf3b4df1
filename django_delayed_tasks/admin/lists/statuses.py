"""The filter by status: a line of links that tells how many tasks have each status."""

from collections.abc import Iterator
from typing import Any, Final

from django.contrib.admin import ChoicesFieldListFilter
from django.urls import reverse
from django.utils.translation import gettext as _

from django_delayed_tasks.admin.lists.columns import number_text
from django_delayed_tasks.conf import settings
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.backlogs import StatusCount, count_statuses

BY_ERROR: Final = "task_errors"
"""The name of the page with the failed tasks by their errors."""


class StatusFilter(ChoicesFieldListFilter):
    """Filters tasks by status; the choices are not folded, so that failed tasks are seen at once."""

    template = "admin/django_delayed_tasks/statuses.html"

    def choices(self, changelist: Any) -> Iterator[Any]:
        everything, *each = super().choices(changelist)
        counts = count_statuses(settings.DATABASE)
        site = changelist.model_admin.admin_site.name
        yield everything
        for choice, (value, _label) in zip(each, TaskStatus.choices, strict=True):
            count = counts[TaskStatus(value)]
            more = {"count": count_text(count), "kind": TaskStatus(value).name.lower() if count.tasks else ""}
            if value == TaskStatus.FAILED and count.tasks:
                more["by_error"] = reverse(f"{site}:django_delayed_tasks_{BY_ERROR}")
            yield {**choice, **more}


def count_text(count: StatusCount) -> str:
    """Return a count as the list shows it: "61", "about 5,000,000" or "more than 1,000"."""
    number = number_text(count.tasks)
    if count.is_exact:
        return str(number)
    return (_("about %s") if count.is_surveyed else _("more than %s")) % number
