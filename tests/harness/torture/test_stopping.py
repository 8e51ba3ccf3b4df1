"""An executor that stops itself on SQLite does so at a moment when none of its threads has the lock."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from django.conf import settings

from harness import ROOT
from tests.waiting import wait_until

__test__ = settings.DDT_DATABASE == "sqlite"

TIMES = 5
STOPPING = f"""
import sqlite3, sys, threading, time
from django.conf import settings
settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}}}})
from harness.torture import hooks

def write():
    writer = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    while True:
        writer.execute("BEGIN IMMEDIATE")
        has_lock.set()
        time.sleep(0.02)
        writer.execute("COMMIT")
        time.sleep(0.02)

has_lock = threading.Event()
threading.Thread(target=write, daemon=True).start()
for _ in range({TIMES}):
    has_lock.clear()
    has_lock.wait()
    hooks._stop_here()
    print("continues", flush=True)
"""


def test_others_can_write_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "written.sqlite3"
    with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        write_while_others_stand_still(path, other)


def write_while_others_stand_still(path: Path, other: sqlite3.Connection) -> None:
    command = [sys.executable, "-c", STOPPING, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as stopping:
        assert stopping.stdout is not None
        for _ in range(TIMES):
            wait_until(lambda: state(stopping.pid) == "T")
            try:
                other.execute("BEGIN IMMEDIATE")
                other.execute("COMMIT")
            finally:
                os.kill(stopping.pid, signal.SIGCONT)
            assert stopping.stdout.readline() == b"continues\n"
    assert stopping.returncode == 0


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
