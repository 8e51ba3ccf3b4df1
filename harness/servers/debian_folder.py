"""Folders with what Debian sid has and this machine has not: made once with debootstrap, kept in the user's cache.

One each for MySQL, PostgreSQL 18 and Python 3.14.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.servers.packages import can_install, find_program, install
from harness.servers.processes import ServerError

SUITE = "sid"
BUILD_TIMEOUT = 1200  # seconds


@dataclass(frozen=True)
class Contents:
    """What a folder has: `check`, run in it as its root, prints what the pattern `expected` matches."""

    title: str
    prefix: str
    package: str
    check: Sequence[str]
    expected: str
    without: str
    """What to do where the folder cannot be made."""
    finish: Callable[[Path, Path], None] = lambda half_made, folder: None
    """Given the folder as it is made, and where it will be."""


MYSQL = Contents(
    "MySQL",
    "mysql-and-router",
    "mysql-server-core,mysql-router",
    ("/usr/sbin/mysqld", "--no-defaults", "--version"),
    r"Ver (?!.*MariaDB)",
    "Install MySQL 8.4 or later, or leave it out: make test DATABASES=sqlite,mariadb,postgres",
)
POSTGRES = Contents(
    "PostgreSQL 18",
    "postgres18",
    "postgresql-18",
    ("/usr/lib/postgresql/18/bin/postgres", "--version"),
    r"\(PostgreSQL\) 18\.",
    "Its cell of the matrix is left out.",
)


def cache_folder() -> Path:
    """Return the folder where this project keeps what is costly to make."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "django-delayed-tasks"


def debian_folder(contents: Contents) -> Path:
    """The folder, made when it is not there yet; ServerError where it cannot be made."""
    cache = cache_folder()
    folder = cache / f"{contents.prefix}-{SUITE}-{os.uname().machine}"
    if folder.exists():
        return folder
    if not can_install():
        raise ServerError(f"{contents.title} was not found and cannot be installed here. {contents.without}")
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache):
        if not folder.exists():
            _build(folder, contents)
    return folder


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """One builder at a time; the kernel gives the lock back when the builder dies."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path, contents: Contents) -> None:
    if find_program(["debootstrap"]) is None:
        install(["debootstrap"], contents.title)
    print(
        f"Making a folder with Debian {SUITE}'s {contents.title}, once (about two minutes) ...",
        file=sys.stderr,
        flush=True,
    )
    half_made = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        _debootstrap(half_made, contents)
        _check(half_made, contents)
        contents.finish(half_made, folder)
        half_made.chmod(0o755)
        half_made.rename(folder)
    except BaseException:
        shutil.rmtree(half_made, ignore_errors=True)
        raise


def _debootstrap(target: Path, contents: Contents) -> None:
    program = find_program(["debootstrap"])
    assert program is not None
    command = [program, "--variant=minbase", f"--include={contents.package}", SUITE, str(target), debian_mirror()]
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=BUILD_TIMEOUT,
    )
    if result.returncode != 0:
        raise ServerError(f"debootstrap could not make the folder for {contents.title}:\n{result.stdout[-4000:]}")
    shutil.rmtree(target / "var/cache/apt/archives", ignore_errors=True)


def _check(folder: Path, contents: Contents) -> None:
    result = subprocess.run(["chroot", str(folder), *contents.check], capture_output=True, text=True, timeout=60)
    if result.returncode != 0 or not re.search(contents.expected, result.stdout):
        raise ServerError(f"The folder made for {contents.title} does not work:\n{result.stdout}{result.stderr}")


def debian_mirror() -> str:
    """The address of the Debian archive that this machine's apt is set up with."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for line in listing.splitlines():
        origin, label, component, address = line.split("|", 3)
        if (origin, label, component) == ("Debian", "Debian", "main"):
            return address
    raise ServerError("apt's sources name no Debian archive, from which MySQL could be had.")
