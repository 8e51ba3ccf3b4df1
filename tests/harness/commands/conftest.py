"""A copy of the project, in which a command may change and remove what it likes."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import ROOT

# The matrix installs no development tools: `make test` runs what needs them.
collect_ignore = [] if find_spec("ruff") else ["test_format.py"]

NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".matrix", ".conformance", "mutants", "build", "dist", "__pycache__", ".*_cache", ".hypothesis",
    "*.sqlite3*",
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of the copy; it has no virtual environment, and nothing that a command made."""
    return Path(shutil.copytree(ROOT, tmp_path / "project", ignore=NOT_COPIED))
