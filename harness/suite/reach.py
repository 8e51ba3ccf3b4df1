"""Whether the tests of a landing reach, on each database, the code that is different there.

The statements of a dialect and of a module of notices are reached on their databases, and each line that asks for the
vendor of a connection on all of them: which branch it takes depends on the vendor alone. Children of the tests'
processes are not measured.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from coverage import Coverage

from harness import ROOT
from harness.suite.steps import Step

PACKAGE = ROOT / "django_delayed_tasks"
BY_DATABASE = ("store/sql/dialects", "store/notices")
"""Folders whose modules are each for some databases, by name; the others are for all."""
ONLY_FOR = {"mysql": ("mariadb", "mysql"), "postgres": ("postgres",), "sqlite": ("sqlite",)}
ASKS = re.compile(r"\.vendor\b|\bvendor_of\(")


def measured(step: Step, folder: Path) -> Step:
    """Return a step of tests that notes in `folder` what it reaches."""
    assert step.database is not None
    data = f"--data-file={_data(folder, step.database)}"
    python, *module = step.command
    command = [python, "-m", "coverage", "run", "--parallel-mode", data, f"--source={PACKAGE}", *module]
    # The new core is for Python 3.12 and later, and costs little.
    core = {"COVERAGE_CORE": "sysmon"} if sys.version_info >= (3, 12) else {}
    return replace(step, command=command, environment={**step.environment, **core})


def report(folder: Path, databases: Sequence[str]) -> bool:
    """Print how much is reached on each database, and the lines that are not; return whether all is."""
    all_reached = True
    for database in databases:
        coverage = Coverage(data_file=_data(folder, database), source=[str(PACKAGE)], config_file=False)
        coverage.combine()
        missing = {path: _missing(coverage, path, lines) for path, lines in wanted(database).items()}
        missing = {path: lines for path, lines in missing.items() if lines}
        print(f"What differs by database is reached on {database}" + (", except:" if missing else "."))
        for path, unreached in missing.items():
            print(f"  {path.relative_to(ROOT)}: {', '.join(map(str, unreached))}")
        all_reached = all_reached and not missing
    return all_reached


def _missing(coverage: Coverage, path: Path, lines: Sequence[int]) -> list[int]:
    """Return where the statements begin, of those that hold these lines, that are not reached."""
    _, statements, _, unreached, _ = coverage.analysis2(str(path))
    held_by = {max((start for start in statements if start <= line), default=line) for line in lines}
    return [line for line in unreached if line in held_by or not lines]


def wanted(database: str) -> dict[Path, list[int]]:
    """Return the lines that have to be reached on a database, by file; no lines are all of them."""
    return dict(_wanted(database))


def _wanted(database: str) -> Iterator[tuple[Path, list[int]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        is_by_database = str(path.parent.relative_to(PACKAGE)) in BY_DATABASE
        if is_by_database and database in ONLY_FOR.get(path.stem, (database,)):
            yield path, []
        elif not is_by_database and (lines := _asking(path)):
            yield path, lines


def _asking(path: Path) -> list[int]:
    """Return the numbers of the lines that ask for the vendor."""
    return [number for number, line in enumerate(path.read_text().splitlines(), 1) if ASKS.search(line)]


def _data(folder: Path, database: str) -> str:
    return str(folder / f"coverage-{database}")
