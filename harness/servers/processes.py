"""Child processes that run as an unprivileged account and never outlive this one."""

import ctypes
import os
import pwd
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
COMMAND_TIMEOUT = 300  # seconds

_libc = ctypes.CDLL(None, use_errno=True)


class ServerError(Exception):
    """A server could not be found, installed or started; the message is for a person."""


@dataclass(frozen=True)
class Account:
    """The operating-system account that a server runs as."""

    name: str
    uid: int
    gid: int

    @property
    def is_current(self) -> bool:
        return self.uid == os.geteuid()

    def own(self, path: Path) -> None:
        """Give `path` to the account."""
        if not self.is_current:
            os.chown(path, self.uid, self.gid)


def choose_account(*names: str) -> Account:
    """The current account, or for root the first of `names` that exists: no server here runs as root."""
    if os.geteuid() != 0:
        entry = pwd.getpwuid(os.geteuid())
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in (*names, "nobody"):
        if name in known:
            return Account(name, known[name].pw_uid, known[name].pw_gid)
    raise ServerError(f"None of the accounts {', '.join(names)} or 'nobody' exists to run a server as.")


def die_with_parent(death_signal: int) -> None:
    """Called in a child: have the kernel send `death_signal` when the parent ends, however it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)


def child_setup(account: Account, root: Path | None, death_signal: int) -> Callable[[], None]:
    """What a child does before exec: enter `root`, become `account`, ask to be ended with its parent."""

    def setup() -> None:
        if root is not None:
            os.chroot(root)
            os.chdir("/")
        if not account.is_current:
            os.setgroups([])
            os.setgid(account.gid)
            os.setuid(account.uid)
        # Last: the kernel forgets the request when the credentials change.
        die_with_parent(death_signal)

    return setup


def child_environment(home: Path) -> Mapping[str, str]:
    """An environment that does not depend on who started the tests."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8"}


def run_as(account: Account, command: Sequence[str], folder: Path, *, root: Path | None = None) -> None:
    """Run `command` to its end as `account` in `folder`; ServerError with its output when it fails."""
    inside = folder if root is None else Path("/") / folder.relative_to(root)
    result = subprocess.run(
        command,
        cwd=folder,
        env=child_environment(inside),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=COMMAND_TIMEOUT,
        start_new_session=True,
        preexec_fn=child_setup(account, root, signal.SIGKILL),
    )
    if result.returncode != 0:
        raise ServerError(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout[-4000:]}")


def start_as(
    account: Account, command: Sequence[str], folder: Path, log: Path, *, root: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `command` as `account` in a session of its own, so that Ctrl-C reaches only its parent."""
    inside = folder if root is None else Path("/") / folder.relative_to(root)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=child_environment(inside),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=child_setup(account, root, signal.SIGKILL),
        )
