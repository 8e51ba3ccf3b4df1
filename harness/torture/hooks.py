"""In an executor: places where the harness can hold it, by files in its folder. Without such files nothing changes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import get_ident
from typing import Any

from django.db import connection

from harness.torture import moments
from harness.torture.histories import Notes

FOLDER = "DDT_TORTURE_FOLDER"
NAME = "DDT_TORTURE_NAME"
STOP_BEFORE_CLAIM = "stop-before-claim"
STOP_BEFORE_SETTLE = "stop-before-settle"
BLOCK_HEARTBEAT = "block-heartbeat"
REAP_AFTER_RENEWAL = "reap-after-renewal"
GATE = "gate-is-open"
HOLD_UNTIL_STOPPED = """
import pathlib, sqlite3, sys, time
holder = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
holder.execute("BEGIN IMMEDIATE")
print("held", flush=True)
tasks = pathlib.Path(f"/proc/{sys.argv[2]}/task")
while any(task.read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.glob("*/stat")):
    time.sleep(0.001)
"""


def flag(folder: Path, what: str, executor: str) -> Path:
    """The file that asks the executor started under this name for ``what``."""
    return folder / f"{what}-{executor}"


def install() -> None:
    """Install the hooks if the harness started this process as an executor."""
    if FOLDER not in os.environ or NAME not in os.environ:
        return
    compare_and_set: Any = import_module("django_delayed_tasks.store.claiming.compare_and_set")
    executors: Any = import_module("django_delayed_tasks.store.executors")
    settling: Any = import_module("django_delayed_tasks.store.settling.settle")
    lanes: Any = import_module("django_delayed_tasks.executor.limits.lanes")
    for module, way in ((compare_and_set, "take"), (lanes, "claim_chosen")):
        setattr(module, way, _stopping_before(getattr(module, way), STOP_BEFORE_CLAIM))
    atomic: Any = import_module("django_delayed_tasks.executor.running.atomic")
    for module, way in ((settling, "_settle_gone"), (settling, "_settle_locked"), (atomic, "settle_run")):
        setattr(module, way, _stopping_before(getattr(module, way), STOP_BEFORE_SETTLE))
    executors.renew = _blocked_before(executors.renew)
    lease: Any = import_module("django_delayed_tasks.executor.membership.lease")
    reaper: Any = import_module("django_delayed_tasks.executor.membership.reaper")
    reapers: list[Any] = []
    reaper.Reaper.__init__ = _noting_itself(reaper.Reaper.__init__, reapers)
    lease.Lease.renew = _reaping_after(lease.Lease.renew, reapers)
    held: Any = import_module("django_delayed_tasks.executor.held")
    held.Held.add = _noting_claims(held.Held.add)


def pass_gate() -> None:
    """Wait, in a handler, until the gate of this executor, or of all, is opened."""
    folder, name = Path(os.environ[FOLDER]), os.environ[NAME]
    while not any(flag(folder, GATE, whose).exists() for whose in (name, "all")):
        time.sleep(0.02)


@cache
def notes() -> Notes:
    """What a handler writes into histories."""
    return Notes(Path(os.environ[FOLDER]), os.environ[NAME])


def die() -> None:
    """End this process, from a handler."""
    moments.note_death(Path(os.environ[FOLDER]), os.environ[NAME])
    os._exit(9)


def _noting_claims(function: Any) -> Any:
    folder, name = Path(os.environ[FOLDER]), os.environ[NAME]

    def noting(held: Any, tasks: Any, **named: Any) -> Any:
        tasks = list(tasks)
        moments.note_claims(folder, name, tasks)
        return function(held, tasks, **named)

    return noting


def _flag(what: str) -> Path:
    return flag(Path(os.environ[FOLDER]), what, os.environ[NAME])


def _stopping_before(function: Any, what: str) -> Any:
    def stopping(*arguments: Any, **named: Any) -> Any:
        path = _flag(what)
        if path.exists():
            path.unlink(missing_ok=True)
            _stop_here()
        return function(*arguments, **named)

    return stopping


def _stop_here() -> None:
    with _nobody_writing():
        # To this thread: a signal to the process stops another one first, and this one would run for a moment more.
        signal.pthread_kill(get_ident(), signal.SIGSTOP)


@contextmanager
def _nobody_writing() -> Iterator[None]:
    """Keep other threads from writing to SQLite until this process is stopped: a stopped writer would hold the lock.

    Another process has the lock until then.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:  # where it has the lock itself
        yield
        return
    command = [sys.executable, "-c", HOLD_UNTIL_STOPPED, str(connection.settings_dict["NAME"]), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield


def _blocked_before(function: Any) -> Any:
    def blocked(*arguments: Any, **named: Any) -> Any:
        while _flag(BLOCK_HEARTBEAT).exists():
            time.sleep(0.05)
        return function(*arguments, **named)

    return blocked


def _noting_itself(init: Any, made: list[Any]) -> Any:
    def noting(itself: Any, *arguments: Any) -> None:
        init(itself, *arguments)
        made.append(itself)

    return noting


def _reaping_after(renew: Any, reapers: list[Any]) -> Any:
    """Renew; if the harness asks for it, reap before anything else."""

    def reaping(lease: Any) -> bool:
        is_ours = bool(renew(lease))
        if is_ours and _flag(REAP_AFTER_RENEWAL).exists():
            reapers[0].reap()
            _flag(REAP_AFTER_RENEWAL).unlink()
        return is_ours

    return reaping
