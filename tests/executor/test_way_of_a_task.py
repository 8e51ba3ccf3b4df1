"""Print which files of the package one plain task passes between its claim and its row in the history.

Run it with ``pytest -s``. Decision 27 has the files, and says why they are no fewer. Nothing is held: a bound would
only follow the code.
"""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import django_delayed_tasks
from django_delayed_tasks.models import TaskRun
from tests.executor.parts import add, executing, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PACKAGE = str(Path(django_delayed_tasks.__file__).parent)
THREADS = ("poller", "lanes", "worker", "settler", "run log")
"""Those that claim, run, settle and log."""
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Calls before Python 3.12, and none since."""


class Way:
    """The functions of the package that threads call while :attr:`is_watched`, as (thread, file, function)."""

    def __init__(self) -> None:
        self.is_watched = False
        self.calls: list[tuple[str, str, str]] = []

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        is_call = event == "call" and frame.f_code.co_name not in COMPREHENSIONS
        if is_call and self.is_watched and path.startswith(PACKAGE):
            self.calls.append((threading.current_thread().name, path, frame.f_code.co_name))


@pytest.fixture
def way() -> Iterator[Way]:
    """The way of what is done in threads that are started from now on."""
    before = threading.getprofile()
    way = Way()
    threading.setprofile(way.note)
    yield way
    threading.setprofile(before)


def has_run(executor: Any, number: int) -> bool:
    return TaskRun.objects.count() == number and not len(executor.held)


def test_one_plain_task(way: Way) -> None:
    """The second task of an executor, so that the start of its threads does not count."""
    handler_of(lambda task: None)
    with executing(threads=1, poll_interval=5.0, heartbeat=30.0, lease=100.0) as executor:
        for number in (1, 2):
            way.calls.clear()
            way.is_watched = True
            add(str(number))
            wait_until(partial(has_run, executor, number))
            way.is_watched = False
    calls = [call for call in way.calls if call[0].startswith(THREADS)]
    assert {thread.partition("-")[0] for thread, _, _ in calls} >= {"poller", "worker", "settler"}
    files = dict.fromkeys(path.removeprefix(f"{PACKAGE}/") for _, path, _ in calls)
    print(f"\n{len(calls)} calls in {len(files)} files:", *files, sep="\n")
