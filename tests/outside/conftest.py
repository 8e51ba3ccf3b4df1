"""Fixtures of this folder."""

from pathlib import Path

import pytest

from tests.harness.making import make
from tests.newcomer import Newcomer
from tests.outside.packages import python_with_packages


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that has the packages from outside."""
    return python_with_packages()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the documentation as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    built = make("docs", SITE=str(folder))
    assert built.returncode == 0, built.stdout
    return folder


@pytest.fixture
def newcomer(tmp_path: Path, python: str) -> Newcomer:
    """A newcomer whose interpreter has the packages from outside."""
    return Newcomer(tmp_path, python=python)
