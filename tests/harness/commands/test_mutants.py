"""``make mutants`` scores the tests, in its smallest size: two changes of a file, and the tests of one."""

import re
import sys
from pathlib import Path

import pytest
from django.conf import settings

from harness import ROOT
from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"


OPTIONS = "--sample 2 --workers 1 outcomes.py --tests tests/executor/running/test_deciding.py"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python knows which lines a test reaches")
def test_an_older_python_is_refused(project: Path) -> None:
    refused = make("mutants", folder=project, MUTANTS=OPTIONS)
    assert refused.returncode != 0
    assert "take a newer Python" in refused.stdout


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the test before this one says so")
def test_two_mutants_are_tried(project: Path) -> None:
    scored = make("mutants", folder=project, MUTANTS=OPTIONS)
    assert scored.returncode == 0, scored.stdout
    found = re.findall(r"^\d/2 (noticed|survived|no answer): ", scored.stdout, re.MULTILINE)
    assert len(found) == 2, scored.stdout
    # A mutant that cannot even be imported has no answer; if none has one, the tests did not run.
    assert {*found} & {"noticed", "survived"}, scored.stdout


@pytest.mark.skipif(sys.version_info < (3, 12), reason="as above")
def test_every_judged_mutant_exists() -> None:
    from harness.scripts.mutation.making import keys_of
    from harness.scripts.mutation.places import PACKAGE
    from harness.scripts.mutation.scoring import judged

    keys = {file: keys_of(ROOT / PACKAGE / file) for file in {key.split(":")[0] for key in judged()}}
    assert [key for key in judged() if key not in keys[key.split(":")[0]]] == []
