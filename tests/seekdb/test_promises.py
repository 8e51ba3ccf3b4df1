"""OceanBase's SQL engine on one node, and tests of the store on it. In the run on MySQL only."""

import os
import subprocess
import sys

import pytest

from harness.servers.seekdb import SeekDB
from harness.suite.parts import PROMISES

TIMEOUT = 400.0  # seconds


@pytest.mark.timeout(TIMEOUT + 900)  # it may have to be downloaded before
def test_the_store_on_seekdb() -> None:
    SeekDB().find()
    tests = [sys.executable, "-m", "pytest", *PROMISES, "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "harness.servers", "--databases", "seekdb", "--", *tests]
    result = subprocess.run(
        command, env={**os.environ, "DDT_DATABASE": "seekdb"}, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
