"""``assert_idempotent``: a handler is called twice, and what it left is compared after each call."""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.apps import apps
from django.core import mail
from django.db import connections, router, transaction
from django.db.models import Model

from django_delayed_tasks.executor import project
from django_delayed_tasks.handlers import TaskHandler, find
from django_delayed_tasks.handlers.functions import Code
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.acceptance import unknown
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, forget_what_was_read
from django_delayed_tasks.support.durations import listed
from django_delayed_tasks.support.forks import is_success
from django_delayed_tasks.testing.executing.as_committed import as_committed

OF_TASKS: Final = ("biz_code", "biz_num", "when", "biz_ext", "queue", "priority", "trigger", "expires_at", "status")
"""The fields of a task that are compared: adding it again changes others, such as its version."""
OUTBOX: Final = "mail.outbox"

State = dict[tuple[str, Any], dict[str, Any]]
"""The fields of each row, by the label of its model and its primary key."""


def assert_idempotent(
    handler: Code | Callable[[Any], Any], task: ClaimedTask, *, ignore: str | Iterable[str] = ()
) -> None:
    """Assert that a second call of the handler with the same task changes nothing that the first one left.

    Both calls are made in transactions that are rolled back. The rows of all models are compared, and the messages in
    ``mail.outbox``; effects outside of these are not seen.

    Args:
        handler: a handler (class, instance or decorated function), or a function that takes the task.
        task: the task, as from ``make_task``.
        ignore: what may differ: "updated_at", "shop.Order.updated_at", or "shop.Order" for a whole model.

    Raises:
        AssertionError: the second call has changed something, or raised; the message says what.
        UnknownCode: no handler has the code.
        Exception: whatever the first call raises.
    """
    call, name = _call_of(handler)
    ignored = {ignore} if isinstance(ignore, str) else set(ignore)
    with _rolled_back(task.alias) as aliases:
        _called(call, task)
        first = _state(aliases, ignored)
        forget_what_was_read(task)
        try:
            _called(call, task)
        except Exception as error:
            raise AssertionError(f"the second call of {name} raised {type(error).__name__}: {error}") from error
        differences = list(_differences(first, _state(aliases, ignored)))
    if differences:
        raise AssertionError(f"{name} is not idempotent: its second call changed\n  " + listed(differences, "\n  "))


def _call_of(handler: Any) -> tuple[Callable[[Any], Any], str]:
    """Return the function that calls the handler with one task, and its name."""
    found = getattr(handler, "handler", handler)
    if isinstance(found, type) and issubclass(found, TaskHandler):
        found = found()
    if isinstance(found, str):
        code, found = found, find(found)
        if found is None:
            raise unknown(code)
    if not isinstance(found, TaskHandler):
        return found, getattr(found, "__name__", repr(found))
    batched: Any = found.handle_batch
    return (lambda task: batched([task])) if found.is_batched else found.handle, type(found).__qualname__


def _called(call: Callable[[Any], Any], task: ClaimedTask) -> None:
    with as_committed():
        try:
            project.call(task, async_to_sync(call) if iscoroutinefunction(call) else call, task)
        except SystemExit as error:
            if not is_success(error):
                raise


@contextmanager
def _rolled_back(alias: str) -> Iterator[set[str]]:
    """Undo at the end of the block all its writes, to this database and to the ones in use; yield all databases."""
    in_use = [connection for connection in connections.all(initialized_only=True) if connection.connection]
    aliases = {alias, *(connection.alias for connection in in_use)}
    sent = len(getattr(mail, "outbox", ()))
    with ExitStack() as stack:
        for alias in aliases:
            block: Any = transaction.atomic(using=alias)
            block._from_testcase = True  # in which atomic handlers, and on_commit hooks, are as they are outside of it
            stack.enter_context(block)
            stack.callback(transaction.set_rollback, True, alias)
        try:
            yield aliases
        finally:
            del getattr(mail, "outbox", [])[sent:]


def _state(aliases: Container[str], ignored: set[str]) -> State:
    state: State = {}
    for model in apps.get_models(include_auto_created=True):
        label, alias = model._meta.label, router.db_for_read(model)
        if alias in aliases and model._meta.managed and label not in ignored:
            for row in _rows(model, alias):
                fields = {name: value for name, value in row.items() if not {name, f"{label}.{name}"} & ignored}
                state[label, _key_of(model, row)] = fields
    if OUTBOX not in ignored:
        for number, message in enumerate(getattr(mail, "outbox", ()), start=1):
            state[OUTBOX, number] = {"subject": message.subject, "to": message.to}
    return state


def _rows(model: type[Model], alias: str) -> Any:
    rows: Any = model._base_manager.using(alias).order_by()
    return rows.values(*OF_TASKS) if model is Task else rows.values()


def _key_of(model: type[Model], row: dict[str, Any]) -> Any:
    if model is Task:
        return f"{row['biz_code']} {row['biz_num']}"
    pk: Any = model._meta.pk
    return row.get(pk.attname, tuple(row.values()))


def _differences(first: State, second: State) -> Iterator[str]:
    for key in sorted(first.keys() | second.keys(), key=str):
        name = f"{key[0]} {key[1]}"
        before, after = first.get(key), second.get(key)
        if before is None:
            yield f"{name}: added, {after}"
        elif after is None:
            yield f"{name}: deleted"
        else:
            changed = [field for field in before if before[field] != after[field]]
            yield from (f"{name}: {field} was {before[field]!r}, is {after[field]!r}" for field in changed)
