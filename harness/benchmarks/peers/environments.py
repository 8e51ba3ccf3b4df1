"""Where the peers are installed, once: a virtual environment, and for the one in JavaScript a folder of npm's."""

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from harness import ROOT
from harness.servers.downloads import CannotBeHad, download

LONGEST = 400.0
"""Seconds that an installation may take."""
REQUIREMENTS = (
    "Django==6.1.3",
    "django-tasks-db==0.13.0",
    "django-ox==1.9.1",
    "dj-queue==0.14.2",
    "huey==3.5.4",
    "pgqueuer==1.6.0",
    "celery[redis]==5.7.0",
    "asyncpg==0.32.0",
    "mysqlclient==2.3.1",
    "psycopg[binary]==3.3.9",
    "redis==8.1.0",
)
NODE_PACKAGES = ("graphile-worker@0.17.3",)


class NotMeasured(Exception):
    """A peer cannot be measured here; the message says why."""


_failed: dict[Path, NotMeasured] = {}
"""Environments that could not be made in this run: not tried again for each peer."""


def folder() -> Path:
    """The folder that keeps the environments from one run to the next."""
    given = os.environ.get("BENCH_FOLDER")
    return Path(given).resolve() / "peers" if given else ROOT / "build" / "bench-peers"


def python() -> str:
    """The interpreter that has the Python peers; NotMeasured when they cannot be installed."""
    if sys.version_info < (3, 12):
        raise NotMeasured("Django 6.1, for which they are installed, needs Python 3.12")
    place = _place("python", (*REQUIREMENTS, platform.python_version(), sys.base_prefix))
    program = str(place / "bin" / "python")
    install = [program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    _once(place, [sys.executable, "-m", "venv", "--clear", str(place)], install)
    return program


def node() -> str:
    """The program that runs the JavaScript peers, whose packages are in :func:`node_modules`; or NotMeasured."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        raise NotMeasured("node and npm are not installed")
    place = _place("node", NODE_PACKAGES)
    place.mkdir(parents=True, exist_ok=True)
    _once(place, [npm, "install", "--no-audit", "--no-fund", "--prefix", str(place), *NODE_PACKAGES])
    return program


def node_modules() -> str:
    """Return the folder for NODE_PATH."""
    return str(_place("node", NODE_PACKAGES) / "node_modules")


def _place(kind: str, contents: Sequence[str]) -> Path:
    """The folder of an environment with these contents: other versions, another folder."""
    return folder() / f"{kind}-{hashlib.sha256(repr(contents).encode()).hexdigest()[:10]}"


def _once(place: Path, *commands: Sequence[str]) -> None:
    """Run what makes an environment, unless it was finished before; NotMeasured when a command fails."""
    if (place / "finished").exists():
        return
    if place not in _failed:
        tqdm.write(f"Installing other queues, to measure them, into {place} ...")
        try:
            for command in commands:
                _install(command)
        except NotMeasured as why:
            _failed[place] = why
    if place in _failed:
        raise _failed[place]
    (place / "finished").touch()


def _install(command: Sequence[str]) -> None:
    """Run one command to its end; raise NotMeasured with the last line that it printed if it fails."""
    try:
        download(command, what_for="other queues", timeout=LONGEST)
    except CannotBeHad as error:
        raise NotMeasured(f"installing failed: {str(error).strip().splitlines()[-1]}") from error
