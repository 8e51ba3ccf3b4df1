"""The testing kit, and its pytest plugin, in a project that has the built wheel and nothing of this repository.

The project is that of docs/how-to/test-your-handlers.md, in an environment with the Python and the Django of this run;
the matrix runs this with each of them. ``CLEAN_ROOMS=5.2,6.0,6.1`` in the environment names other versions of Django.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import django
import pytest

from harness import ROOT
from harness.servers.downloads import cache_folder, download, made_once
from tests.newcomer import SETTINGS, Newcomer

PAGE = ROOT / "docs/how-to/test-your-handlers.md"
DJANGOS = os.environ.get("CLEAN_ROOMS", f"{django.VERSION[0]}.{django.VERSION[1]}").split(",")
NEEDED = ("cronsim", "time-machine>=3.6", "pytest", "pytest-django", "hatchling")
"""What the package needs besides Django, what the page needs, and what builds the wheel."""


def environment() -> dict[str, str]:
    """That of this process, without the folders in which it has found modules."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """What the command prints; its failure fails the test."""
    done = subprocess.run(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module", params=DJANGOS)
def django_version(request: pytest.FixtureRequest) -> str:
    """The version of Django in the room, such as "6.0"."""
    return str(request.param)


@pytest.fixture(scope="module")
def python(django_version: str) -> str:
    """The interpreter of an environment that is made once and kept."""
    needed = (f"Django=={django_version}.*", *NEEDED)
    names = hashlib.sha256(" ".join(needed).encode()).hexdigest()[:8]
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}-django{django_version}-{names}"

    def make(half_made: Path) -> None:
        download(
            [sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(half_made)],
            [str(half_made / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed],
            what_for=f"An environment with Django {django_version}",
            timeout=600.0,
            environment=environment(),
        )

    room = made_once(cache_folder() / "clean-rooms" / name, make)
    return str(room / "bin/python")


@pytest.fixture(scope="module")
def wheel(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel was built and installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    [built] = folder.glob("*.whl")
    run(*pip, "install", "--quiet", "--no-deps", "--target", folder / "site", built)
    return folder / "site"


def test_tests_of_handlers_pass_as_shown(django_version: str, python: str, wheel: Path, tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path, python=python, path=wheel)
    newcomer.has_a_project(SETTINGS)
    newcomer.follows(PAGE)

    assert "Ran 11 tests" in newcomer.saw("manage.py test")
    assert "1 passed" in newcomer.saw("-m pytest")
    home = newcomer.run(
        "python -c 'import django, django_delayed_tasks as ours; print(ours.__file__, django.__version__)'"
    )
    assert home.startswith(str(wheel))
    assert home.split()[-1].startswith(f"{django_version}.")
