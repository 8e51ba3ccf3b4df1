"""What is measured, one module for each case: ``measure(bench)`` notes its figures, ``GOALS`` says what is wanted."""

from importlib import import_module
from types import ModuleType

NAMES = (
    "add", "drain", "observed", "functions", "peers", "atomic", "lateness", "storm", "backlog", "limits", "purge",
    "contention", "idle", "memory", "recovery", "sustained", "pages", "clusters",
)  # fmt: skip
LARGE = ("peers", "clusters")
"""What is left out of a run in the smallest size: each of the peers is installed first, each cluster started."""


def case_of(name: str) -> ModuleType:
    """The module of a case."""
    return import_module(f"harness.benchmarks.cases.{name}")
