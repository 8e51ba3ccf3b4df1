"""The handlers by name, and what the invariants may expect of their codes. Settings use it: it imports no Django."""

from collections.abc import Iterable

HANDLERS = (
    "Plain", "Atomic", "Slow", "Deadly", "Hanging", "Retrying", "Again", "AtomicAgain", "AtomicFlaky",
    "Silent", "Fatal", "Gated", "AtomicGated", "Leaving", "Limited", "Keyed", "Foreign", "Failing", "Single",
    "Misusing", "AtomicMisusing", "Forking", "Recorded",
)  # fmt: skip

COROUTINES = (*HANDLERS, "Async")
"""The same, with one that makes its executors claim in shares. The driver knows all; an executor those of its scenario.
"""

FOREIGN = "t-\N{GRINNING FACE}-支付-e\N{COMBINING ACUTE ACCENT}"
MAY_FAIL = frozenset({"t-deadly", "t-failing"})
"""Codes whose tasks end FAILED by design, whatever the faults."""
KILLERS = frozenset({"t-deadly", "t-fatal"})
"""Codes whose tasks end the process that runs them."""
ATOMIC_FUNCTION = "harness.torture.tasks.atomic_function"
FUNCTIONS = ("harness.torture.tasks.function", "harness.torture.tasks.coroutine", ATOMIC_FUNCTION)
"""Functions of the Tasks framework, by their paths, which are their codes."""
MIXED = (
    "t-plain",
    "t-atomic",
    "t-slow",
    "t-retrying",
    "t-again",
    "t-atomic-again",
    "t-atomic-flaky",
    "t-limited",
    "t-keyed",
    FOREIGN,
    *FUNCTIONS,
)
"""Codes that the mixed load draws from; every one of them ends well in a world without faults."""


MISUSING = ("t-misusing", "t-atomic-misusing", "t-forking")
"""Codes whose runs leave their thread in disorder, and fork; each of them ends well."""
MAX_RUNNING = {"t-limited": 2, "t-keyed": 1}
"""How many runs of a code there may be at a time; of the second one, of each key."""


def paths_of(handlers: Iterable[str]) -> list[str]:
    """Return the dotted paths of these handlers."""
    return [f"harness.torture.handlers.{name}" for name in handlers]


def concurrency_key(code: str, num: str) -> str:
    """Return the key by which concurrent runs are counted."""
    return num[-1:] if code == "t-keyed" else ""


def is_atomic(code: str) -> bool:
    """Whether the effects of this code are written in the transaction of the settlement."""
    return code.startswith("t-atomic") or code == ATOMIC_FUNCTION
