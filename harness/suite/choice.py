"""The steps of ``make test``, ``make check`` and ``make test-all``."""

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import django

from harness import ROOT
from harness.suite import changes, reach
from harness.suite.parts import (
    ALONE,
    FAULTS,
    LANDING,
    NOT_QUICK,
    REST,
    by_part,
    files_of_tests,
    is_rest,
    runs_on,
)
from harness.suite.steps import Step, target, tests

EXPECTED = {
    "faults": 190, "bench": 60, "commands": 160, "processes": 130, "examples": 40, "leases": 150, "pages": 110,
    "races": 120, "executor": 100, "site": 60, "outside": 350, "scripts": 100, "store": 110, "all else": 60,
    "alone": 60,
}  # fmt: skip
"""How long each part takes on one database, about, in seconds: only the order in which they start depends on it."""


def steps(what: str, databases: Sequence[str], options: Sequence[str], folder: Path) -> list[Step]:
    """Return the steps of one command, or those of the tests that options of pytest choose."""
    if options:
        return [Step("chosen", [sys.executable, "-m", "pytest", *options], database) for database in databases]
    if what == "all":
        chosen = [reach.measured(step, folder) for step in landing(databases, folder, databases)]
        return [*checks(folder, whole=True), *chosen, *rest(databases, folder)]
    without = NOT_QUICK if is_quick(what, databases) else ()
    unaffected = changes.unaffected() if what == "check" else ()
    chosen = landing(databases, folder, [database_of_faults(databases)], without, unaffected)
    checked = [step for step in checks(folder) if step.name not in unaffected]
    return [*checked, *chosen] if what == "check" else chosen


def is_quick(what: str, databases: Sequence[str]) -> bool:
    """Return whether a developer waits for the answer: the tests on SQLite alone."""
    return what == "tests" and list(databases) == ["sqlite"]


def checks(folder: Path, whole: bool = False) -> list[Step]:
    """Return the steps that are no tests."""
    found = [
        target("lint", folder=folder, expected=200),
        target("verify", folder=folder, expected=150),
        target("demo", folder=folder, expected=300),  # it waits more than it computes
    ]
    # Django 5.2 has no Tasks framework; the suite of the backport is on a forge.
    if whole or django.VERSION >= (6, 0):
        core = () if whole else ("DATABASES=sqlite", "CONFORMANCE=--suites core")
        found.append(target("conformance", *core, folder=folder, expected=60))
    return found


def landing(
    databases: Sequence[str],
    folder: Path,
    faults_on: Collection[str],
    without: Collection[str] = (),
    unaffected: Collection[str] = (),
) -> list[Step]:
    """Return the steps of tests that have to pass before a change lands.

    Args:
        databases: what to run them on.
        folder: where their output goes.
        faults_on: the databases that run the part of faults.
        without: the parts that are left out.
        unaffected: files of tests that are left out.
    """
    found: list[Step] = []
    for database in databases:
        files = [path for path in files_of_tests() if runs_on(path, database) and path not in unaffected]
        for name, paths in by_part(files).items():
            if name not in without and (name != FAULTS or database in faults_on):
                found.append(tests(name, database, paths, folder, LANDING, EXPECTED[name]))
        if alone := [path for path in files if path in ALONE]:
            step = tests("alone", database, alone, folder, LANDING, EXPECTED["alone"])
            step.is_alone = database != "sqlite"
            found.append(step)
    return found


def rest(databases: Sequence[str], folder: Path) -> list[Step]:
    """Return the steps of the tests that only ``make test-all`` runs on servers."""
    found: list[Step] = []
    for database in databases:
        files = [path for path in files_of_tests() if is_rest(path, database)]
        for name, paths in by_part(files).items():
            found.append(tests(f"{name}, rest", database, paths, folder, REST, EXPECTED[name]))
    return found


def database_of_faults(databases: Sequence[str]) -> str:
    """Return the one that runs the part of faults: it depends on the commit, so that each has its turn."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return databases[int(commit or "0", 16) % len(databases)]
