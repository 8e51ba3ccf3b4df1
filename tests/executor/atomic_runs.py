"""Runs of atomic handlers, with effects that a test can see."""

from typing import Any

from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import claim_one, handler_of
from tests.executor.runs import run_one

EFFECT: dict[str, Any] = {
    "host": "h", "pid": 1, "threads": 1, "alive": None,
    "started_at": "2026-01-01T00:00Z", "heartbeat_at": "2026-01-01T00:00Z", "expires_at": "2026-01-01T00:00Z",
}  # fmt: skip
NOBODY = {"threads": None}
"""Makes an effect that the database refuses."""


def write(name: str = "effect", **fields: Any) -> None:
    Executor.objects.create(**EFFECT | {"name": name} | fields)


def effects() -> list[str]:
    return list(Executor.objects.filter(host="h").order_by("id").values_list("name", flat=True))


def run_once(handle: Any, task: Any = None, **attributes: Any) -> Settlement | None:
    return run_one(task or claim_one(), handler_of(handle, atomic=True, **attributes), DatabaseClock())


def settled_later(settlement: Settlement | None) -> NextState | None:
    """Return the result of the settler's attempt."""
    assert settlement is not None
    return settle("default", [settlement]).became.get(settlement.claim)
