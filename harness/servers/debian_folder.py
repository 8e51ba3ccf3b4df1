"""A folder with Debian sid's MySQL, made once with debootstrap and kept in the user's cache."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.servers.packages import can_install, find_program, install
from harness.servers.processes import ServerError

SUITE = "sid"
PACKAGE = "mysql-server-core"
BUILD_TIMEOUT = 1200  # seconds


def cache_folder() -> Path:
    """Where this project keeps what is costly to make."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "django-delayed-tasks"


def mysql_folder() -> Path:
    """The folder, made when it is not there yet; ServerError where it cannot be made."""
    cache = cache_folder()
    folder = cache / f"mysql-{SUITE}-{os.uname().machine}"
    if folder.exists():
        return folder
    if not can_install():
        raise ServerError(
            "MySQL was not found and cannot be installed here. Install MySQL 8.4 or later, or leave it out: "
            "make test DATABASES=sqlite,mariadb,postgres"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache):
        if not folder.exists():
            _build(folder)
    return folder


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """One builder at a time; the kernel gives the lock back when the builder dies."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(folder: Path) -> None:
    if find_program(["debootstrap"]) is None:
        install(["debootstrap"], "MySQL")
    print(f"Making a folder with Debian {SUITE}'s MySQL, once (about two minutes) ...", file=sys.stderr, flush=True)
    half_made = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        _debootstrap(half_made)
        _check(half_made)
        half_made.chmod(0o755)
        half_made.rename(folder)
    except BaseException:
        shutil.rmtree(half_made, ignore_errors=True)
        raise


def _debootstrap(target: Path) -> None:
    program = find_program(["debootstrap"])
    assert program is not None
    command = [program, "--variant=minbase", f"--include={PACKAGE}", SUITE, str(target), debian_mirror()]
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
        raise ServerError(f"debootstrap could not make the folder for MySQL:\n{result.stdout[-4000:]}")
    shutil.rmtree(target / "var/cache/apt/archives", ignore_errors=True)


def _check(folder: Path) -> None:
    command = ["chroot", str(folder), "/usr/sbin/mysqld", "--no-defaults", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if result.returncode != 0 or "MariaDB" in result.stdout:
        raise ServerError(f"The folder made for MySQL does not work:\n{result.stdout}{result.stderr}")


def debian_mirror() -> str:
    """The address of the Debian archive that this machine's apt is set up with."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"]
    listing = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for line in listing.splitlines():
        origin, label, component, address = line.split("|", 3)
        if (origin, label, component) == ("Debian", "Debian", "main"):
            return address
    raise ServerError("apt's sources name no Debian archive, from which MySQL could be had.")
