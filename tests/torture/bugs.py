"""Bugs put into the executors on purpose, to see that the harness finds them. Named by an environment variable."""

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

VARIABLE = "DDT_TORTURE_BUG"
STORE = "django_delayed_tasks.store"


def install() -> None:
    """The bug that the environment names, if this is an executor.

    Raises:
        KeyError: there is no such bug.
    """
    if name := os.environ.get(VARIABLE):
        BUGS[name]()


def by_id(claims: Iterable[tuple[int, int]], prefix: str = "") -> str:
    """A fence that looks at no version."""
    ids = ", ".join(str(task_id) for task_id, _ in claims)
    return f"({prefix}id IN ({ids}))" if ids else "(1 = 0)"


def settle_without_fence() -> None:
    """A run settles its task whoever holds the claim now."""
    settling: Any = import_module(f"{STORE}.settling")
    usual = settling._lock

    def lock(cursor: Any, dialect: Any, claims: Any, *more: Any) -> Any:
        found = {task_id: flags for (task_id, _), flags in usual(cursor, dialect, claims, *more).items()}
        return {claim: found[claim[0]] for claim in claims if claim[0] in found}

    settling.fence = by_id
    settling._lock = lock
    settling._same_claim = lambda of: f"t.id = {of['id']}"
    alone: Any = import_module(f"{STORE}.settling_alone")
    alone.fence = by_id


def delete_without_looking() -> None:
    """The end of a run deletes its task, with the schedule that was deferred meanwhile."""
    settling: Any = import_module(f"{STORE}.settling")
    usual = settling._lock

    def lock(*arguments: Any) -> Any:
        return {claim: met._replace(is_deferred=False) for claim, met in usual(*arguments).items()}

    settling._lock = lock


def effects_apart() -> None:
    """The effects of an atomic handler are committed before the settlement."""
    from tests.torture import handlers

    for handler in (handlers.Atomic, handlers.AtomicAgain, handlers.AtomicFlaky):
        handler.atomic = False
        handler.handle = _committed_apart(handler.handle)  # type: ignore[method-assign]


def _committed_apart(handle: Any) -> Any:
    from django.db import transaction

    def apart(self: Any, task: Any) -> Any:
        with transaction.atomic(using=task.alias):
            return handle(self, task)

    return apart


def claim_without_version() -> None:
    """A claim takes the row as it was read, whatever was written to it since."""
    compare_and_set: Any = import_module(f"{STORE}.compare_and_set")
    compare_and_set.fence = by_id


def slots_for_all() -> None:
    """Whoever asks for a slot is told that he has one."""
    permits: Any = import_module("django_delayed_tasks.executor.limits.permits")

    def take_slots(alias: str, code: str, limit: int, wanted: dict[str, list[Any]], most: int) -> Any:
        return {claim: (0, 0) for claims in wanted.values() for claim in claims}

    permits.take_slots = take_slots


BUGS: dict[str, Callable[[], None]] = {
    "settle-without-fence": settle_without_fence,
    "delete-without-looking": delete_without_looking,
    "effects-apart": effects_apart,
    "claim-without-version": claim_without_version,
    "slots-for-all": slots_for_all,
}
