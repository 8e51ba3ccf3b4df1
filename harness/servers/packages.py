"""Finding programs, and installing Debian packages where root may."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.servers.processes import ServerError

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
    """Install Debian packages without starting a service; ServerError says what to do instead.

    Says so on stderr: what the caller writes to stdout is read by programs.
    """
    names = list(packages)
    if not can_install():
        raise ServerError(
            f"{what_for} was not found and cannot be installed here. Install it (on Debian as root: apt-get "
            f"install {' '.join(names)}), or run the tests on SQLite alone: make test DATABASES=sqlite"
        )
    print(f"Installing {' '.join(names)} for {what_for} ...", file=sys.stderr, flush=True)
    with _alone(), _no_services():
        _apt_get("update")
        _apt_get("install", "-y", "--no-install-recommends", *names)


def _apt_get(*arguments: str) -> None:
    result = subprocess.run(
        ["apt-get", "-q", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=APT_TIMEOUT,
    )
    if result.returncode != 0:
        raise ServerError(f"apt-get {' '.join(arguments)} failed:\n{result.stdout[-4000:]}")


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
