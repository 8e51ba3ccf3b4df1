"""Leases of a process with a pool of connections (``OPTIONS["pool"]``, PostgreSQL) are renewed outside of it."""

import json

import pytest

from tests.processes.conftest import Start

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def test_it_is_renewed_while_the_pool_is_empty(start: Start) -> None:
    options = {"pool": {"min_size": 1, "max_size": 1}}
    child = start("-m", "tests.leases.pooled", environment={"DDT_OPTIONS": json.dumps(options)})
    assert child.exit_code() == 0, child.output
    assert "free 0 of 1" in child.output
    assert "held True" in child.output
    assert "could not be renewed" not in child.output
