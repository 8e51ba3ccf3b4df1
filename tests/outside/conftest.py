"""Fixtures of this folder."""

from pathlib import Path

import pytest

from tests.newcomer import Newcomer
from tests.outside.packages import python_with_packages


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that has the packages from outside."""
    return python_with_packages()


@pytest.fixture
def newcomer(tmp_path: Path, python: str) -> Newcomer:
    """A newcomer whose interpreter has the packages from outside."""
    return Newcomer(tmp_path, python=python)
