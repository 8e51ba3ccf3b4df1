"""Fixtures of this folder."""

from typing import Any

import pytest

from tests.executor import middlewares


@pytest.fixture
def use(settings: Any) -> Any:
    """``use(*names)``: these of the tests' middlewares, the outermost first."""
    middlewares.begin()

    def use(*names: str) -> None:
        paths = [f"{middlewares.__name__}.{name}" for name in names]
        settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "MIDDLEWARE": paths}

    return use
