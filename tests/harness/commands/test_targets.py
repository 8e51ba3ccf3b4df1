"""What is not run rots: every target of the Makefile is run by a test or by ``.ci/run``, in its smallest size."""

import re
from pathlib import Path

from django.conf import settings

from harness import ROOT
from harness.suite import choice
from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
CALLED = r"""\bmake\(\s*"([a-z-]+)\""""


def by_ci() -> set[str]:
    """The targets that ``.ci/run`` makes: ``check``, those that it consists of, and ``venv``, which each needs."""
    [made] = re.findall(r"^make --no-print-directory (\S+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    return {made, "venv", *(step.name.removeprefix("make ") for step in choice.checks(Path("unused"), whole=True))}


def test_everything_in_its_smallest_size() -> None:
    made = make("test-all", DATABASES="sqlite", PYTEST="tests/test_outcomes.py --quiet")
    assert made.returncode == 0, made.stdout
    assert " passed" in made.stdout


def by_tests() -> set[str]:
    """The targets that tests make."""
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    return {target for source in sources for target in re.findall(CALLED, source)}


def test_every_target_is_run() -> None:
    assert len(TARGETS) > 10
    assert TARGETS - by_ci() - by_tests() == set()


def test_every_target_is_declared_to_be_no_file() -> None:
    [declared] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(declared.split()) == TARGETS


def test_help_names_every_target_and_is_what_make_alone_prints() -> None:
    told = make("help")
    assert told.returncode == 0
    assert set(re.findall(r"^  ([a-z-]+) {2,}\S", told.stdout, re.MULTILINE)) == TARGETS
    assert re.findall(r"^\.DEFAULT_GOAL := (.*)$", MAKEFILE, re.MULTILINE) == ["help"]


def test_clean_removes_what_was_made_and_nothing_else(project: Path) -> None:
    before = {path for path in project.rglob("*") if path.is_file()}
    for name in (
        ".venv/bin/python",
        ".matrix/a",
        "mutants/a",
        "build/a",
        "dist/a",
        "a.egg-info/a",
        "tests/__pycache__/a",
    ):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert make("clean", folder=project).returncode == 0
    assert {path for path in project.rglob("*") if path.is_file()} == before
