"""OceanBase's SQL engine on one node, and tests of the store on it. In the run on MySQL only."""

import os
import subprocess
import sys

import pytest

from harness.servers.seekdb import SeekDB

TIMEOUT = 400.0  # seconds
TESTED = (
    "tests/api/test_bulk.py",
    "tests/api/test_changing_many.py",
    "tests/api/test_finding.py",
    "tests/api/test_identity.py",
    "tests/api/test_times.py",
    "tests/executor/limits/test_whole_executor.py",
    "tests/executor/test_executor.py",
    "tests/leases/test_mutex.py",
    "tests/store/claiming/test_order.py",
    "tests/store/settling",
    "tests/store/sql/test_sent_moments.py",
    "tests/store/test_sent_rows.py",
)
"""Tests that ask for nothing which this engine does in another way; docs/explanation/scaling.md says what that is."""


@pytest.mark.timeout(TIMEOUT + 900)  # it may have to be downloaded before
def test_the_store_on_seekdb() -> None:
    SeekDB().find()
    tests = [sys.executable, "-m", "pytest", *TESTED, "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "harness.servers", "--databases", "seekdb", "--", *tests]
    result = subprocess.run(
        command, env={**os.environ, "DDT_DATABASE": "seekdb"}, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
