"""The folders of the repository that the measure reads and writes, and which tests it runs."""

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness import ROOT

PACKAGE = "django_delayed_tasks"
WORK = ROOT / "mutants"
VERDICTS = WORK / "verdicts.jsonl"
JUDGED = Path(__file__).with_name("judged.toml")
NOT_COPIED = (".venv", ".git", ".matrix", ".*_cache", ".hypothesis", "__pycache__", "build", "dist")

SCORED = ("states.py", "outcomes.py", "store", "triggers", "executor", "leases")
"""What is scored, each with a score of its own."""
TESTS = (
    "tests/api", "tests/executor", "tests/handlers", "tests/leases", "tests/races",
    "tests/recurring", "tests/stats", "tests/store", "tests/triggers", "tests/processes", "tests/test_conf.py",
    "tests/test_database_checks.py", "tests/test_forks.py", "tests/test_outcomes.py", "tests/test_package.py",
    "tests/test_states.py",
)  # fmt: skip
"""Folders and files of tests that are run."""
NO_TESTS = (
    "tests/recurring/ticking", "tests/leases/test_contention.py", "tests/leases/test_docs.py",
    "tests/leases/test_failing_over.py", "tests/leases/test_runmutex.py",
)  # fmt: skip
"""The tests among them that take long, or look at the documentation."""


def ignored(folder: str, names: list[str]) -> set[str]:
    """Return which of the names in a folder a copy of the repository leaves out."""
    return {*shutil.ignore_patterns(*NOT_COPIED)(folder, names), *({WORK.name} if Path(folder) == ROOT else ())}


def scored_files(unit: str) -> list[Path]:
    """Return the Python files of a unit of SCORED."""
    place = ROOT / PACKAGE / unit
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def test_files(names: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the files of tests that are run, relative to the root: those of these folders and files."""
    for name in names:
        place = ROOT / name
        files = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
        yield from (str(file.relative_to(ROOT)) for file in files if not is_below(file, NO_TESTS))


def is_below(file: Path, places: Iterable[str]) -> bool:
    """Return whether ``file`` is one of the places or below one, all relative to the root."""
    return any(file.relative_to(ROOT).is_relative_to(place) for place in places)


def digest(*files: Path) -> str:
    """Return a hash of the contents of the files."""
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
