"""``importbeat`` compared with Celery's beat itself."""

import subprocess

from tests.newcomer import environment
from tests.pages import ROOT


def test_the_times_are_those_of_beat(python: str) -> None:
    program = [python, "-m", "tests.outside.importers.beat"]
    done = subprocess.run(program, cwd=ROOT, env=environment(ROOT), timeout=100, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
