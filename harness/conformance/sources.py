"""Where the suites come from: the sources of the installed versions, downloaded when they are needed."""

import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from harness.conformance.suites import Suite

BACKPORT = "https://github.com/RealOrangeOne/django-tasks.git"
"""The repository of the backport, whose source distributions have no tests."""


def tests_of(suite: Suite, folder: Path) -> Path:
    """Return the folder with the suite of the installed version; below ``folder``, unless it is there already."""
    number = version(suite.package)
    home = folder / f"{suite.package}-{number}"
    if not home.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _WAYS[suite.package](number, home)
    return home / suite.folder


def _download(number: str, home: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(home.parent), f"django=={number}"], check=True)
    with tarfile.open(home.parent / f"django-{number}.tar.gz") as archive:
        archive.extractall(home.parent, filter="data")


def _clone(number: str, home: Path) -> None:
    git = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch", number]
    subprocess.run([*git, BACKPORT, str(home)], check=True)


_WAYS: Mapping[str, Callable[[str, Path], None]] = {"django": _download, "django-tasks": _clone}
