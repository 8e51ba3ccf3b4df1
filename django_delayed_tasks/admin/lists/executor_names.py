"""The names of executors, in place of the ids that tasks and runs have."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from django_delayed_tasks.admin.lists.changelist import BoundedChangeList
from django_delayed_tasks.admin.lists.columns import EMPTY, SHORT, named
from django_delayed_tasks.conf import settings
from django_delayed_tasks.store import executors


class NamingChangeList(BoundedChangeList):
    """A list whose rows get the names of their executors, found by one statement."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        names = names_of(self.result_list)
        for row in self.result_list:
            row.executor_name = names.get(row.executor)


def names_of(rows: Any) -> dict[int, str]:
    """Return the names of the executors of these tasks or runs, by id."""
    ids = {row.executor for row in rows} - {0, None}
    return executors.names(settings.DATABASE, ids) if ids else {}


def executor_text(row: Any) -> str:
    """Return the name of the executor of a task or a run; its id if its row has been deleted."""
    name = row.executor_name if hasattr(row, "executor_name") else names_of([row]).get(row.executor)
    return str(name or row.executor or EMPTY)


def executor_link(site: str, row: Any) -> SafeString | str:
    """Return the name of the executor of a task or a run, which leads to its page if it has a row."""
    name = row.executor_name if hasattr(row, "executor_name") else names_of([row]).get(row.executor)
    if not name:
        return executor_text(row)
    address = reverse(f"{site}:django_delayed_tasks_executor_change", args=[row.executor])
    kind = mark_safe(' class="ddt-long"') if len(name) > SHORT else ""
    return format_html('<a{} href="{}">{}</a>', kind, address, named(name))
