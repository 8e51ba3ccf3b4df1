"""Folders with what Debian sid has and this machine has not: made once with debootstrap, kept in the user's cache.

One each for MySQL, PostgreSQL 18 and Python 3.14.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.servers.downloads import CannotBeHad, cache_folder, download, made_once
from harness.servers.packages import can_install, find_program, install

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


def debian_folder(contents: Contents) -> Path:
    """The folder, made when it is not there yet; CannotBeHad where it cannot be made."""
    folder = cache_folder() / f"{contents.prefix}-{SUITE}-{os.uname().machine}"
    return made_once(folder, partial(_build, contents, folder))


def _build(contents: Contents, folder: Path, half_made: Path) -> None:
    if not can_install():
        raise CannotBeHad(f"{contents.title} was not found and cannot be installed here. {contents.without}")
    if find_program(["debootstrap"]) is None:
        install(["debootstrap"], contents.title)
    print(
        f"Making a folder with Debian {SUITE}'s {contents.title}, once (about two minutes) ...",
        file=sys.stderr,
        flush=True,
    )
    _debootstrap(half_made, contents)
    _check(half_made, contents)
    contents.finish(half_made, folder)


def _debootstrap(target: Path, contents: Contents) -> None:
    program = find_program(["debootstrap"])
    assert program is not None
    command = [program, "--variant=minbase", f"--include={contents.package}", SUITE, str(target), debian_mirror()]
    download(command, what_for=contents.title, timeout=BUILD_TIMEOUT, into=target)
    shutil.rmtree(target / "var/cache/apt/archives", ignore_errors=True)


def _check(folder: Path, contents: Contents) -> None:
    result = subprocess.run(["chroot", str(folder), *contents.check], capture_output=True, text=True, timeout=60)
    if result.returncode != 0 or not re.search(contents.expected, result.stdout):
        raise CannotBeHad(f"The folder made for {contents.title} does not work:\n{result.stdout}{result.stderr}")


def debian_mirror() -> str:
    """The address of the Debian archive that this machine's apt is set up with."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for line in listing.splitlines():
        origin, label, component, address = line.split("|", 3)
        if (origin, label, component) == ("Debian", "Debian", "main"):
            return address
    raise CannotBeHad("apt's sources name no Debian archive, from which MySQL could be had.")
