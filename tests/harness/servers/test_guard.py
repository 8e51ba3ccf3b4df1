"""What servers have started themselves ends with the process that started the servers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from harness import ROOT
from harness.servers.guard import kill_all, processes_in
from tests.processes.waiting import wait_until

__test__ = settings.DDT_DATABASE == "sqlite"

STARTER = """
import subprocess, sys, time
from pathlib import Path
from harness.servers.guard import start_guard
folder = Path(sys.argv[1])
start_guard([folder])
subprocess.Popen(["sleep", "300"], cwd=folder, start_new_session=True)
print("begun", flush=True)
time.sleep(300)
"""


def test_all_in_the_folder_ends_when_the_starter_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"begun\n"
        wait_until(lambda: processes_in(tmp_path))
        os.kill(starter.pid, signal.SIGKILL)
    wait_until(lambda: not processes_in(tmp_path))


def test_only_what_is_in_the_folder_is_killed(tmp_path: Path) -> None:
    inside, beside = tmp_path / "a" / "data", tmp_path / "ab"
    inside.mkdir(parents=True)
    beside.mkdir()
    sleeping = [subprocess.Popen(["sleep", "300"], cwd=folder) for folder in (inside, beside)]
    try:
        wait_until(lambda: processes_in(tmp_path / "a"))
        kill_all(tmp_path / "a")
        assert sleeping[0].wait(10) == -signal.SIGKILL
        assert sleeping[1].poll() is None
    finally:
        for one in sleeping:
            one.kill()
            one.wait()
