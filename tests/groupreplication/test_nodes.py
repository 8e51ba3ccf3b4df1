"""Real clusters of three MySQL nodes, of which all or one are primary, and the tests on them. On MySQL only."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from harness.servers.downloads import CannotBeHad
from harness.servers.groupreplication import Cluster
from harness.servers.mysqlrouter import MySQLRouter

TIMEOUT = 400.0  # seconds; three servers start, which takes ten on a machine that is idle
MODES = {
    "multi-primary": (
        [],
        ["tests/galera/nodes/test_claims.py", "tests/galera/nodes/test_through_changing_nodes.py",
         "tests/groupreplication/nodes"],
    ),
    "single-primary": (["--single-primary"], ["tests/groupreplication/single"]),
}  # fmt: skip


@pytest.mark.timeout(TIMEOUT + 900)  # its servers may have to be installed before
@pytest.mark.parametrize(("options", "paths"), MODES.values(), ids=MODES.keys())
def test_everything_on_nodes(options: Sequence[str], paths: Sequence[str]) -> None:
    Cluster.provide()
    with contextlib.suppress(CannotBeHad):  # the tests with it are left out then
        MySQLRouter("").find()
    tests = [sys.executable, "-m", "pytest", *paths, "-q", "-x", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "harness.servers.groupreplication", *options, "--", *tests]
    result = subprocess.run(
        command, env={**os.environ, "DDT_DATABASE": "groupreplication"}, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
