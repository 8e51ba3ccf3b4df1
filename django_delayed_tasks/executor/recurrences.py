"""What this process declares: the triggers of its handlers."""

from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import TaskHandler, get_task_handlers
from django_delayed_tasks.store import declaring

CONFIRM_EVERY = 60.0
"""Seconds."""
RETIRE_AFTER = timedelta(minutes=10)
"""How long no executor must have had a handler before its recurring task is ended: all of them may be restarting."""


class Recurrences:
    """Declared at the start, confirmed from time to time."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._since = clock.monotonic()

    def declare(self) -> None:
        """Make the tasks of all handlers with a trigger exist; end those of handlers that have lost theirs."""
        handlers = get_task_handlers()
        recurring = [_declared(code, handler) for code, handler in handlers.items() if handler.trigger]
        declaring.declare(self._alias, recurring)
        declaring.retire(self._alias, [code for code, handler in handlers.items() if not handler.trigger])

    def confirm(self) -> bool:
        """Say that they are still here; end what nobody has said that of for long."""
        declaring.confirm(self._alias, [code for code, handler in get_task_handlers().items() if handler.trigger])
        if clock.monotonic() - self._since > RETIRE_AFTER.total_seconds():
            declaring.retire(self._alias, unconfirmed_for=RETIRE_AFTER)
        return False


def _declared(code: str, handler: TaskHandler) -> declaring.Declared:
    return declaring.Declared(code, str(handler.trigger), handler.queue, handler.priority)
