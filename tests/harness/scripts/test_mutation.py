"""The measure of the tests makes the changes it says, and takes no broken run for a verdict."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT
from harness.scripts.mutation.copies import PYTEST, Ran
from harness.scripts.mutation.making import keys_of, make
from harness.scripts.mutation.places import PACKAGE, SCORED, scored_files
from harness.scripts.mutation.plugin import JOB, Job
from harness.scripts.mutation.scoring import interval, row
from harness.scripts.mutation.trying import NO_ANSWER, NOTICED, SURVIVED, Verdict, failed_test

TESTS = """
import time

def test_passes():
    pass

def test_fails():
    assert False

def test_hangs():
    time.sleep(600)
"""


def ran(folder: Path, **seconds: float) -> Ran:
    """Run those of TESTS with pytest and the plugin, each for so long at most."""
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    limits = {f"test_it.py::test_{name}": limit for name, limit in seconds.items()}
    order, report = folder / "job", folder / "report"
    order.write_text(json.dumps(Job(report=str(report), seconds=limits, with_lines=False)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), JOB: str(order)}
    command = [sys.executable, *PYTEST, "-p", "no:django", "test_it.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return Ran(done.returncode, [json.loads(line) for line in report.read_text().splitlines()], done.stdout)


def test_tests_run_in_the_order_of_the_job(tmp_path: Path) -> None:
    found = ran(tmp_path, fails=60, passes=60)
    assert [event["test"] for event in found.events if event["event"] == "begins"] == ["test_it.py::test_fails"]
    assert found.code == 1
    assert failed_test(found) == "test_it.py::test_fails"


def test_a_run_that_passes_has_no_failed_test(tmp_path: Path) -> None:
    found = ran(tmp_path, passes=60)
    assert (found.code, failed_test(found)) == (0, None)


def test_a_test_that_hangs_ends_the_run_and_is_named(tmp_path: Path) -> None:
    found = ran(tmp_path, passes=60, hangs=0.5)
    assert found.code != 0
    assert failed_test(found) == "test_it.py::test_hangs"


def test_a_run_without_its_tests_has_no_verdict(tmp_path: Path) -> None:
    found = ran(tmp_path, renamed=60)
    assert found.code not in (0, 1)
    assert failed_test(found) is None


def test_keys_of_all_mutants_differ_and_stay() -> None:
    file = ROOT / PACKAGE / "triggers" / "misfires.py"
    keys = keys_of(file)
    assert len(set(keys)) == len(keys) > 50
    assert keys == keys_of(file)


def test_each_mutant_is_another_program_with_one_place_changed() -> None:
    file = ROOT / PACKAGE / "triggers" / "values.py"
    mutants = make(file, set(keys_of(file)))
    assert len(mutants) > 20
    for mutant in mutants:
        compile(mutant.source, mutant.path, "exec")
        assert mutant.source != file.read_text()
        assert mutant.change.startswith("-")


def test_words_for_people_are_not_changed() -> None:
    changes = [change for file in scored_files("leases") for change in make(file, set(keys_of(file)[::25]))]
    assert [change.change for change in changes if change.change.startswith(("-raise", "-logger"))] == []


@pytest.mark.parametrize("unit", SCORED)
def test_every_scored_unit_has_files(unit: str) -> None:
    assert scored_files(unit)


def test_score_leaves_out_what_has_no_answer() -> None:
    outcomes = [NOTICED] * 8 + [SURVIVED] * 2 + [NO_ANSWER] * 5
    verdicts = [Verdict(f"x:{number}", outcome, "", 1, 60, "") for number, outcome in enumerate(outcomes)]
    assert "| 80% |" in row("triggers", 100, verdicts)


@pytest.mark.parametrize(
    ("hits", "size", "total", "low", "high"),
    [(0, 0, 9, 0.0, 1.0), (9, 10, 10, 0.9, 0.9), (50, 100, 10**9, 0.404, 0.596), (10, 10, 10**9, 0.722, 1.0)],
)
def test_interval(hits: int, size: int, total: int, low: float, high: float) -> None:
    assert interval(hits, size, total) == pytest.approx((low, high), abs=0.001)
