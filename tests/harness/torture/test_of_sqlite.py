"""The scenarios that are for SQLite alone: each landing runs them there, and the others on a server."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.torture.scenario import scenarios

ONLY_HERE = [one.name for one in scenarios() if one.databases == {"sqlite"}]


@pytest.mark.parametrize("chosen", ONLY_HERE)
def test_promises_are_kept(chosen: str, tortured: Callable[[str], dict[str, Any]]) -> None:
    result = tortured(chosen)
    assert (result["verdict"], result["violations"], result["trouble"]) == ("KEPT", [], "")
    assert result["done"] > 0
    assert result["faults"]
