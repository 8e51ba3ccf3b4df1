"""Finding programs, and installing Debian packages where root may."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.servers.downloads import CannotBeHad, download

APT_TIMEOUT = 900  # seconds
DPKG = Path("/var/lib/dpkg")
POLICY = Path("/usr/sbin/policy-rc.d")
USUAL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/opt/homebrew/bin")


def find_program(names: Iterable[str], folders: Iterable[str] = ()) -> str | None:
    """The path of the first of `names` on PATH, in `folders` or in the usual places; None without one."""
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), *USUAL_FOLDERS])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    return None


def can_install() -> bool:
    """Whether this is Debian (or the like) and this process may install packages."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: Iterable[str], what_for: str) -> None:
    """Install Debian packages without starting a service; CannotBeHad says what to do instead.

    Says so on stderr: what the caller writes to stdout is read by programs.
    """
    names = list(packages)
    if not can_install():
        raise CannotBeHad(
            f"{what_for} was not found and cannot be installed here. Install it (on Debian as root: apt-get "
            f"install {' '.join(names)}), or run the tests on SQLite alone: make test DATABASES=sqlite"
        )
    print(f"Installing {' '.join(names)} for {what_for} ...", file=sys.stderr, flush=True)
    with _alone(), _no_services():
        download(
            ["apt-get", "-q", "update"],
            ["apt-get", "-q", "install", "-y", "--no-install-recommends", *names],
            what_for=what_for,
            timeout=APT_TIMEOUT,
            environment={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )


@contextmanager
def _alone() -> Iterator[None]:
    """One installation at a time: apt-get does not wait for another to end."""
    folder = os.open(DPKG, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian's packages start their server when they are installed, unless policy-rc.d forbids it."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
