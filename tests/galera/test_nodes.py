"""A real cluster of three nodes, and the tests of ``nodes/`` on it. In the run on MariaDB only."""

import os
import subprocess
import sys

import pytest

from harness.servers.galera import Cluster

TIMEOUT = 400.0  # seconds; three servers start, which takes fifteen on a machine that is idle


@pytest.mark.timeout(TIMEOUT + 900)  # its servers may have to be installed before
def test_everything_in_nodes() -> None:
    Cluster.provide()
    tests = [sys.executable, "-m", "pytest", "tests/galera/nodes", "-q", "-x", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "harness.servers.galera", "--", *tests]
    result = subprocess.run(
        command, env={**os.environ, "DDT_DATABASE": "galera"}, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
