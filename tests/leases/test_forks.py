"""A process that forks while it holds something, and while one of its threads waits."""

import pytest

from tests.leases.forker import CHILDREN
from tests.processes.conftest import Start

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def test_what_is_held_is_the_parents_and_children_have_their_own(start: Start, live_db: str) -> None:
    """SQLite itself forbids to fork while another thread is using it."""
    waiting = [] if live_db == "sqlite" else ["waiting"]
    child = start("-m", "tests.leases.forker", *waiting)
    assert child.exit_code() == 0, child.output
    assert f"held True {[0] * CHILDREN}" in child.output
    assert child.output.count("its turn") == len(waiting)
    assert "could not be renewed" not in child.output
