"""Where the suites come from: the sources of the installed versions, downloaded when they are needed."""

import sys
import tarfile
from pathlib import Path

from harness.conformance.suites import Suite
from harness.servers.downloads import download

BACKPORT = "https://github.com/RealOrangeOne/django-tasks.git"
"""The repository of the backport, whose source distributions have no tests."""
TIMEOUT = 600.0
"""Seconds that a download may take."""


def tests_of(suite: Suite, number: str, folder: Path, clone: str) -> Path:
    """Return the folder with the suite of this version; below ``folder``, where it is put unless it is there.

    ``clone`` is the repository of the backport, or a clone of it.
    """
    home = folder / f"{suite.package}-{number}"
    if not home.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if suite.package == "django":
            _download(number, home)
        else:
            _clone(number, home, clone)
    return home / suite.folder


def _download(number: str, home: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    download([*pip, "--dest", str(home.parent), f"django=={number}"], what_for="Django's suite", timeout=TIMEOUT)
    with tarfile.open(home.parent / f"django-{number}.tar.gz") as archive:
        archive.extractall(home.parent, filter="data")


def _clone(number: str, home: Path, clone: str) -> None:
    git = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch", number]
    download([*git, clone, str(home)], what_for="The suite of the backport", timeout=TIMEOUT)
