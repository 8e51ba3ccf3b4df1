"""What comes from outside of this machine: downloaded in several tries, kept in the user's cache if it is costly."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.servers.processes import ServerError

PAUSES = (3.0, 15.0)
"""Seconds before the second try, and before the third."""


class CannotBeHad(ServerError):
    """Something is not on this machine, and cannot be brought here now; the message is for a person."""


def download(
    *commands: Sequence[str],
    what_for: str,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    into: Path | None = None,
) -> None:
    """Run commands that download; all of them again after a pause if one fails.

    Args:
        commands: what is run, one after the other.
        what_for: what a person calls that which is downloaded.
        timeout: the seconds after which a command is given up, and not tried again.
        environment: that of the commands, if not this process's own.
        into: a folder that is emptied before they are run again.

    Raises:
        CannotBeHad: one failed each time; the message begins with a line, and has all that the command printed.
    """
    for pause in (*PAUSES, None):
        try:
            for command in commands:
                _run(command, timeout, environment)
        except subprocess.CalledProcessError as error:
            failed = f"{what_for} cannot be had here: {_told(error)}"
            if pause is None:
                raise CannotBeHad(failed) from error
            print(f"{failed}\nAgain in {pause:g} s ...", file=sys.stderr, flush=True)
            time.sleep(pause)
            _empty(into)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBeHad(f"{what_for} cannot be had here: {error}") from error
        else:
            return


def _run(command: Sequence[str], timeout: float, environment: Mapping[str, str] | None) -> None:
    subprocess.run(
        command,
        check=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
    )


def _told(error: subprocess.CalledProcessError) -> str:
    """Return what went wrong, in the last line that the command printed, and then all."""
    output = error.output.strip()[-4000:]
    last = output.rpartition("\n")[2] or f"exit status {error.returncode}"
    return f"{last}\n{' '.join(error.cmd)} failed:\n{output}".rstrip()


def _empty(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)


def cache_folder() -> Path:
    """Return the folder where this project keeps what is costly to make."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "django-delayed-tasks"


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; if it is not there yet, ``make`` is given an empty one, which then becomes it."""
    if not folder.exists():
        with one_at_a_time(folder):
            if not folder.exists():
                _make(folder, make)
    return folder


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """Hold the lock of a place in the cache; the kernel gives it back when its holder dies."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    half_made = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        make(half_made)
        half_made.chmod(0o755)
        half_made.rename(folder)
    except BaseException:
        shutil.rmtree(half_made, ignore_errors=True)
        raise
