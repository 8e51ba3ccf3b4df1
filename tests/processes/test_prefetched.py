"""Tasks that wait in one executor's local queue while others have nothing to do."""

from tests.processes.conftest import Start
from tests.processes.database import is_settled
from tests.processes.folder import Folder
from tests.processes.prefetched import QUICK_ONES, fill_local_queue
from tests.processes.waiting import wait_until

SOON = 6.0
"""Seconds: well below the ten in which an executor looks at everything again."""


def test_what_waits_behind_a_slow_run_is_run_by_others(starttask: Start, folder: Folder) -> None:
    gate = folder.shut("1")
    slow = starttask("--name", "slow", "--threads", "1").wait_until_ready()
    fill_local_queue(folder)
    other = starttask("--name", "other", "--threads", "1").wait_until_ready()

    wait_until(lambda: folder.count("ran") == QUICK_ONES, timeout=SOON)
    assert {note.pid for note in folder.notes("ran", attempts=1)} == {slow.pid, other.pid}
    gate.open()
    wait_until(lambda: is_settled("held", "1"))
    assert folder.count("ran") == QUICK_ONES
