"""``make mutants`` scores the tests, in its smallest size: two changes of one small file, and the tests of one file."""

from pathlib import Path

from django.conf import settings

from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"


def test_two_mutants_have_verdicts(project: Path) -> None:
    options = "--sample 2 --workers 1 states.py --tests tests/executor/running/test_deciding.py"
    scored = make("mutants", folder=project, MUTANTS=options)
    assert scored.returncode == 0, scored.stdout
    assert "2/2 " in scored.stdout, scored.stdout
