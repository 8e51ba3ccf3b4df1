"""A virtual environment with the packages from outside, made once and kept in the user's cache."""

import hashlib
import platform
import sys
from pathlib import Path

import pytest

from harness.servers.downloads import cache_folder, download, one_at_a_time

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


def _make(place: Path) -> None:
    python = str(place / "bin" / "python")
    download(
        [sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(place)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS],
        what_for="The packages from outside",
        timeout=TIMEOUT,
    )
    (place / "finished").touch()
