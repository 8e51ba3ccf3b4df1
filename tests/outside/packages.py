"""A virtual environment with the packages from outside, made once and kept in the user's cache."""

import fcntl
import hashlib
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.servers.debian_folder import cache_folder

REQUIREMENTS = (
    "Django==6.0.10",  # the newest that all of them allow
    "celery==5.7.0",
    "croniter==6.0.0",  # for the schedules of django-q2
    "cronsim==2.8",
    "django-background-tasks==1.2.8",
    "django-celery-beat==2.9.0",
    "django-pictures==1.8.0",
    "django-q2==1.11.1",
    "django-structlog==11.0.0",
    "django-tasks==0.12.0",
    "django-tasks-db==0.13.0",
    "wagtail==8.0.1",
)
TIMEOUT = 600.0
"""Seconds that the installation may take."""


def python_with_packages() -> str:
    """Return the interpreter of the environment, which is made now if it is not there; skip the test on Python 3.11."""
    if sys.version_info < (3, 12):
        pytest.skip("Django 6.0 needs Python 3.12")
    contents = repr((REQUIREMENTS, platform.python_version(), sys.base_prefix))
    place = cache_folder() / f"outside-{hashlib.sha256(contents.encode()).hexdigest()[:10]}"
    with one_at_a_time(place):
        if not (place / "finished").exists():
            _make(place)
    return str(place / "bin" / "python")


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """Hold the lock of a place in the cache; the kernel gives it back when its holder dies."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(place: Path) -> None:
    _run(sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(place))
    _run(str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS)
    (place / "finished").touch()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
