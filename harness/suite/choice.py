"""The steps of ``make test``, ``make check`` and ``make test-all``."""

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import django

from harness import ROOT
from harness.suite import changes, reach
from harness.suite.parts import (
    ALL,
    ALONE,
    JOINED,
    LANDING,
    NOT_QUICK,
    REST,
    SCENARIOS,
    TURNS,
    by_part,
    can_run,
    files_of_tests,
    is_rest,
    part_of,
    runs_on,
)
from harness.suite.steps import Step, target, tests

EXPECTED = {
    "faults": 250, "galera": 330, "groupreplication": 90, "seekdb": 90, "clusters": 240,
    "proofs": 250, "bench": 200, "browser": 210, "commands": 210, "processes": 150,
    "examples": 60, "leases": 160,
    "pages": 240, "races": 220, "executor": 130, "site": 80, "outside": 260, "scripts": 100, "store": 240,
    "all else": 130, "alone": 60,
}  # fmt: skip
"""How long each part takes on one database, about, in seconds: only the order in which they start depends on it."""
PARTS_IN_TURN = {part for part, _ in TURNS}


def steps(what: str, databases: Sequence[str], options: Sequence[str], folder: Path) -> list[Step]:
    """Return the steps of one command, or those of the tests that options of pytest choose."""
    if options:
        return [Step("chosen", [sys.executable, "-m", "pytest", *options], database) for database in databases]
    if what == "all":
        chosen = [reach.measured(step, folder) for step in landing(databases, folder)]
        return [*checks(folder, whole=True), *chosen, *faults(databases, folder), *rest(databases, folder)]
    without = NOT_QUICK if is_quick(what, databases) else ()
    unaffected = changes.unaffected() if what == "check" else ()
    chosen = landing(databases, folder, turn_of_commit(databases), without, unaffected)
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
        target("demo", folder=folder, expected=0, is_alone=True),  # it measures lateness
    ]
    # Django 5.2 has no Tasks framework; the suite of the backport is on a forge.
    if whole or django.VERSION >= (6, 0):
        core = ("CONFORMANCE=--where-possible",) if whole else ("DATABASES=sqlite", "CONFORMANCE=--suites core")
        found.append(target("conformance", *core, folder=folder, expected=60))
    return found


def landing(
    databases: Sequence[str],
    folder: Path,
    turn: tuple[str, str] | None = None,
    without: Collection[str] = (),
    unaffected: Collection[str] = (),
) -> list[Step]:
    """Return the steps of tests that have to pass before a change lands.

    Args:
        databases: what to run them on.
        folder: where their output goes.
        turn: the one of `TURNS` that is run; without it none.
        without: the parts that are left out.
        unaffected: files of tests that are left out.
    """

    def is_chosen(path: str, database: str) -> bool:
        part = part_of(path)
        if part in PARTS_IN_TURN and (part, database) != turn:
            return database == "sqlite" and path != SCENARIOS and runs_on(path, database)
        return runs_on(path, database)

    found: list[Step] = []
    for database in databases:
        files = [path for path in files_of_tests() if is_chosen(path, database) and path not in unaffected]
        found += steps_of(files, database, folder, LANDING, without)
        if alone := [path for path in files if path in ALONE]:
            step = tests("alone", database, alone, folder, LANDING, EXPECTED["alone"])
            step.is_alone = database != "sqlite"
            found.append(step)
    return found


def steps_of(
    files: Collection[str], database: str, folder: Path, selection: str, without: Collection[str] = ()
) -> list[Step]:
    """Return a step for each part that has some of these files, but for those that are left out and the `JOINED`."""
    parts: dict[str, list[str]] = {}
    for name, paths in by_part(files).items():
        if name not in without:
            parts.setdefault(JOINED.get(database, {}).get(name, name), []).extend(paths)
    return [tests(name, database, paths, folder, selection, EXPECTED[name]) for name, paths in parts.items()]


def faults(databases: Sequence[str], folder: Path) -> list[Step]:
    """Return the steps of all turns, on each database that can run them, but for what SQLite has in a landing."""
    found: list[Step] = []
    for database in databases:
        in_turn = [path for path in files_of_tests() if part_of(path) in PARTS_IN_TURN and can_run(path, database)]
        files = [path for path in in_turn if database != "sqlite" or path == SCENARIOS]
        found += steps_of(files, database, folder, ALL)
    return found


def rest(databases: Sequence[str], folder: Path) -> list[Step]:
    """Return the steps of the tests that only ``make test-all`` runs on servers."""
    found: list[Step] = []
    for database in databases:
        files = [path for path in files_of_tests() if is_rest(path, database)]
        for name, paths in by_part(files).items():
            found.append(tests(f"{name}, rest", database, paths, folder, REST, EXPECTED[name]))
    return found


def turn_of_commit(databases: Collection[str]) -> tuple[str, str] | None:
    """Return the one of the `TURNS` on these databases that the commit's hash chooses."""
    possible = [turn for turn in TURNS if turn[1] in databases]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return possible[int(commit or "0", 16) % len(possible)] if possible else None
