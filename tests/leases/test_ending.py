"""A process that ends while it holds something."""

import pytest

from tests.processes.conftest import Start

pytestmark = pytest.mark.usefixtures("live_db")

HOLDS = """
import atexit, threading
def last():
    print("left", [thread.name for thread in threading.enumerate()])
    with mutex("cleaning up"):
        print("done")
atexit.register(last)  # the first one is called last
import django
django.setup()
from django_delayed_tasks.leases import mutex
held = mutex("nightly", ttl=0.5)
held.__enter__()
print("running", [thread.name for thread in threading.enumerate()])
"""


def test_no_thread_renews_while_the_interpreter_goes(start: Start) -> None:
    """One that logs then makes the interpreter abort: it holds the lock of stderr, which is flushed at the end."""
    child = start("-c", HOLDS)
    assert child.exit_code() == 0
    running, left, done, *_ = child.output.split("\n")
    assert (running, left) == ("running ['MainThread', 'ddt-leases-default']", "left ['MainThread']")
    assert done == "done"
