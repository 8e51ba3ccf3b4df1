"""Steps of the actions of the list of tasks: select, start, confirm."""

from typing import Any

from django.test import Client

from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.models import Task
from tests.admin.pages import confirm, hidden_of
from tests.admin.rows import list_of

LIST = list_of("task")
ACTIONS = ["run_now", "postpone", "pause", "resume", "retry_failed", "cancel"]
STATUS = {"run_now": 0, "postpone": 0, "pause": 0, "resume": 3, "retry_failed": 2, "cancel": 0}


def do(client: Client, action: str, *tasks: Task, everything: bool = False, **condition: str) -> Any:
    """Select these tasks as they are in memory, run an action on them (or on all that match), and say yes if asked."""
    response = ask(client, action, *tasks, everything=everything, **condition)
    return confirm(client, LIST, response, **condition)


def ask(client: Client, action: str, *tasks: Task, everything: bool = False, **condition: str) -> Any:
    """Select these tasks as they are in memory, and start an action on them (or on all that match)."""
    form: dict[str, Any] = {"action": action, "_selected_action": [row.pk for row in tasks]}
    form |= {"select_across": int(everything), seen.NAME: [seen.mark(row) for row in tasks]}
    return client.post(LIST, form, query_params=condition)


def confirm_once(client: Client, response: Any) -> Any:
    """Press the button of a page that asks, or shows progress."""
    return client.post(LIST, hidden_of(response))
