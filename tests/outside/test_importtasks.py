"""What ``importtasks`` moves is what the other library would run, by its own code, over rows of every kind."""

import subprocess

import pytest

from tests.newcomer import environment
from tests.pages import ROOT

PATIENCE = 300.0


@pytest.mark.parametrize("program", ["background", "q2", "tasks_db"])
def test_rows_are_moved_as_the_other_library_would_run_them_or_left_with_a_reason(program: str, python: str) -> None:
    command = [python, "-m", f"tests.outside.importers.{program}"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, errors="replace", timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
