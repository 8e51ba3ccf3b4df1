"""Whether the tests of a landing reach, on each database, the code that is different there.

A statement of a dialect, or of a module of notices, has to be reached on one of its databases; a statement that asks
for the vendor of a connection, or for what only some dialects can do, on each vendor: which branch it takes depends on
the vendor alone. Children of the tests' processes are not measured, nor is what `EXEMPT` and `ELSEWHERE` name.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coverage import Coverage

from harness import ROOT
from harness.suite.steps import Step

PACKAGE = ROOT / "django_delayed_tasks"
BY_DATABASE = ("store/sql/dialects", "store/notices")
"""Folders whose modules are each for some databases, by name; the others are for all."""
VENDORS: Mapping[str, Sequence[str]] = {
    "mysql": ("mariadb", "mysql"),
    "postgres": ("postgres",),
    "sqlite": ("sqlite",),
}
"""The databases of each vendor, which are the names of its modules, too."""
ASKS = re.compile(r"\.(vendor|has_returning|has_looks)\b")
EXEMPT = (r"^\s*raise\b", r"def __repr__\b", r"def _forget\b", r"except OperationalError:  # the interruption")
"""What only broken servers reach, as in torture, what only forked children do, and what only an unlucky moment does."""
ELSEWHERE = {
    "store/sql/dialects/mysql.py": dict.fromkeys(
        ("caught_up", "catch_up"), "a node of a cluster, which tests in processes of their own have"
    ),
    "store/notices/sqlite.py": {"_listeners": "a socket of another user, or one that is being closed"},
}
"""Functions of which some statements are not reached, by file, and why."""


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
    """Print for each vendor what is not reached on any of its databases, by line; return whether all is."""
    unreached = {database: _unreached(folder, database) for database in databases}
    by_vendor = {vendor: [unreached[name] for name in names if name in unreached] for vendor, names in VENDORS.items()}
    missing = {vendor: _in_all(found) for vendor, found in by_vendor.items() if found}
    of_all = _in_all([*unreached.values()])
    is_all = True
    for vendor, paths in missing.items():
        numbers_of = {path: paths[path] if _is_for(path, vendor) else of_all.get(path, set()) for path in sorted(paths)}
        lines = {path: numbers for path, numbers in numbers_of.items() if numbers}
        print(f"What differs by database is reached on {vendor}" + (", except:" if lines else "."))
        for path, numbers in lines.items():
            print(f"  {path.relative_to(ROOT)}: {', '.join(map(str, sorted(numbers)))}")
        is_all = is_all and not lines
    return is_all


def _is_for(path: Path, vendor: str) -> bool:
    """Return whether this vendor has to reach the lines of a file: those of a module for all have to be on any."""
    return not _is_by_database(path) or path.stem == vendor


def _in_all(found: Sequence[Mapping[Path, set[int]]]) -> dict[Path, set[int]]:
    """Return the lines, by file, that are in each of these; a file that one lacks is not reached by that one."""
    paths = {path for lines in found for path in lines}
    return {
        path: common for path in paths if (common := set.intersection(*(lines.get(path, set()) for lines in found)))
    }


def _unreached(folder: Path, database: str) -> dict[Path, set[int]]:
    coverage = Coverage(data_file=_data(folder, database), source=[str(PACKAGE)], config_file=False)
    for pattern in EXEMPT:
        coverage.exclude(pattern)
    coverage.combine()
    return {path: set(_missing(coverage, path, lines)) for path, lines in sorted(wanted(database).items())}


def _missing(coverage: Coverage, path: Path, lines: Sequence[int]) -> list[int]:
    """Return where the statements begin, of those that hold these lines, that are not reached."""
    _, statements, _, unreached, _ = coverage.analysis2(str(path))
    held_by = {max((start for start in statements if start <= line), default=line) for line in lines}
    elsewhere = _lines_of(path, ELSEWHERE.get(str(path.relative_to(PACKAGE)), {}))
    return [line for line in unreached if (line in held_by or not lines) and line not in elsewhere]


def _lines_of(path: Path, functions: Mapping[str, str]) -> set[int]:
    """Return the lines of these functions of a file."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    assert {*functions} <= {node.name for node in nodes}, f"{path} has not all of {', '.join(functions)}"
    return {line for node in nodes if node.name in functions for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def wanted(database: str) -> dict[Path, list[int]]:
    """Return the lines that have to be reached on a database, by file; no lines are all of them."""
    return dict(_wanted(database))


def _wanted(database: str) -> Iterator[tuple[Path, list[int]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if _is_by_database(path):
            if database in VENDORS.get(path.stem, (database,)):
                yield path, []
        elif lines := _asking(path):
            yield path, lines


def _is_by_database(path: Path) -> bool:
    return str(path.parent.relative_to(PACKAGE)) in BY_DATABASE


def _asking(path: Path) -> list[int]:
    """Return the numbers of the lines that ask for the vendor, or for what only some dialects can do."""
    return [number for number, line in enumerate(path.read_text().splitlines(), 1) if ASKS.search(line)]


def _data(folder: Path, database: str) -> str:
    return str(folder / f"coverage-{database}")
