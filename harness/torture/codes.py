"""The handlers by name, and what the invariants may expect of their codes. Imports nothing: settings use it."""

HANDLERS = (
    "Plain", "Atomic", "Slow", "Deadly", "Hanging", "Retrying", "Again", "AtomicAgain", "AtomicFlaky",
    "Silent", "Fatal", "Gated", "AtomicGated", "Limited", "Keyed", "Foreign", "Failing",
)  # fmt: skip

FOREIGN = "t-\N{GRINNING FACE}-支付-e\N{COMBINING ACUTE ACCENT}"
MAY_FAIL = frozenset({"t-deadly", "t-failing"})
"""Codes whose tasks end FAILED by design, whatever the faults."""
KILLERS = frozenset({"t-deadly", "t-fatal"})
"""Codes whose tasks end the process that runs them."""
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
)
"""Codes that the mixed load draws from; every one of them ends well in a world without faults."""


MOST = {"t-limited": 2, "t-keyed": 1}
"""How many runs of a code there may be at a time; of the second one, of each key."""


def concurrency_key(code: str, num: str) -> str:
    """Return the key by which concurrent runs are counted."""
    return num[-1:] if code == "t-keyed" else ""


def is_atomic(code: str) -> bool:
    """Whether the effects of this code are written in the transaction of the settlement."""
    return code.startswith("t-atomic")
