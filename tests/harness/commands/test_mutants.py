"""``make mutants`` scores the tests, in its smallest size: two changes of a file, and the tests of one."""

import re
from pathlib import Path

from django.conf import settings

from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"


def test_two_mutants_are_tried(project: Path) -> None:
    options = "--sample 2 --workers 1 outcomes.py --tests tests/executor/running/test_deciding.py"
    scored = make("mutants", folder=project, MUTANTS=options)
    assert scored.returncode == 0, scored.stdout
    found = re.findall(r"^\d/2 (noticed|survived|no answer): ", scored.stdout, re.MULTILINE)
    assert len(found) == 2, scored.stdout
    # A mutant that cannot even be imported has no answer; if none has one, the tests did not run.
    assert {*found} & {"noticed", "survived"}, scored.stdout
