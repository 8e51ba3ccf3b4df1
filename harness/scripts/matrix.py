"""Run the tests on SQLite over every Python that is found and every Django that is supported.

``python -m harness.scripts.matrix [pytest options]``. Each cell has a virtual environment under ``.matrix``.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT

FOLDER = ROOT / ".matrix"
DJANGO_VERSIONS = ("5.2", "6.0", "6.1")
OLDEST_PYTHON = {"5.2": (3, 11), "6.0": (3, 12), "6.1": (3, 12)}
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Cell:
    """One pair of versions."""

    python: str
    python_version: tuple[int, int]
    django: str

    @property
    def title(self) -> str:
        return f"Python {self.python_version[0]}.{self.python_version[1]}, Django {self.django}"

    @property
    def folder(self) -> Path:
        return FOLDER / f"py{self.python_version[0]}{self.python_version[1]}-django{self.django}"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: `note` is pytest's closing line, or why there is none."""

    cell: Cell
    passed: bool
    note: str


def find_pythons() -> list[tuple[str, tuple[int, int]]]:
    """Paths and versions of the interpreters on this machine."""
    script = ROOT / "harness/scripts/find_python.sh"
    paths = subprocess.run([script, "--all"], capture_output=True, text=True, check=True).stdout.split()
    return [(path, version_of(path)) for path in paths]


def version_of(python: str) -> tuple[int, int]:
    question = "import sys; print(*sys.version_info[:2])"
    answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, answer.split())
    return major, minor


def cells() -> list[Cell]:
    """Every pair that Django supports."""
    return [
        Cell(python, version, django)
        for python, version in find_pythons()
        for django in DJANGO_VERSIONS
        if version >= OLDEST_PYTHON[django]
    ]


def run(cell: Cell, options: Sequence[str]) -> Outcome:
    """Install and test one cell."""
    print(f"\n--- {cell.title} ---", flush=True)
    problem = install(cell)
    if problem:
        return Outcome(cell, False, f"could not be had: {problem}")
    environment = {**os.environ, "DDT_DATABASE": "sqlite"}
    command = [str(cell.folder / "bin/python"), "-m", "pytest", *options]
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    return Outcome(cell, process.wait() == 0, last.strip("= "))


def install(cell: Cell) -> str:
    """Make the environment; the last line of what went wrong, or nothing."""
    python = str(cell.folder / "bin/python")
    steps: list[list[str]] = [
        [cell.python, "-m", "venv", "--clear", str(cell.folder)],
        [python, *PIP, "--editable", ".[bench,test]", f"Django=={cell.django}.*"],
    ]
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines()
            errors = [line for line in lines if line.startswith("ERROR")]
            return [*errors, *lines[-1:], "no output"][0]
    return ""


def main(options: Sequence[str]) -> int:
    outcomes = [run(cell, options) for cell in cells()]
    print()
    for outcome in outcomes:
        print(f"{outcome.cell.title:<26} {'passed' if outcome.passed else 'FAILED':<7} {outcome.note}")
    return 0 if outcomes and all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
