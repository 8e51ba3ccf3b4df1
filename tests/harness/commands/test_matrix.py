"""``make matrix`` in its smallest size: the cell of this Python and the installed Django, with one file of tests."""

import sys
from pathlib import Path

import django
import nox  # noqa: F401 - the command needs it
import pytest
from django.conf import settings

from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"


def test_a_cell_is_green(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_COMPILE", "1")  # few of the modules that are installed are imported
    python, installed = (".".join(map(str, version[:2])) for version in (sys.version_info, django.VERSION))
    ran = make("matrix", folder=project, CELLS=f"python{python}-django{installed}", PYTEST="tests/test_lazy_names.py")
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout, ran.stdout
