"""Every scenario in its short size keeps every promise, and has really done what it is for."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from harness.torture.faults.clocks import library
from harness.torture.scenario import scenarios

pytestmark = pytest.mark.per_database

# What is for SQLite alone is in test_of_sqlite.py.
HERE = [
    one.name for one in scenarios()
    if one.number and settings.DDT_DATABASE in one.databases and one.databases != {"sqlite"}
]  # fmt: skip

# PostgreSQL may well see no deadlock in the storm.
WITHOUT_FAULTS = ("one-identity", "deadlocks", "stopping", "texts", "misuse", "order")


@pytest.mark.parametrize("chosen", HERE)
def test_promises_are_kept(chosen: str, tortured: Callable[[str], dict[str, Any]]) -> None:
    if chosen == "clocks":
        library()
    result = tortured(chosen)
    assert result["violations"] == []
    assert result["trouble"] == ""
    assert result["verdict"] == "KEPT"
    assert (result["lost"], result["doubled"]) == (0, 0)
    assert result["done"] > 0
    assert result["faults"] or chosen in WITHOUT_FAULTS
