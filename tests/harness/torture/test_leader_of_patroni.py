"""The leader of Patroni dies while its replication is cut: what was answered is there, unless nothing waited for it."""

from pathlib import Path

from tests.harness.torture.clustered import tortured, with_cluster

pytestmark = with_cluster
KEPT, PLANTED = "leader-cut", "leader-cut:asynchronous"
"""The planted fault: an add that is gone with the leader, which has answered it alone."""


def test_answered_adds_survive_and_a_lost_one_is_found(tmp_path: Path) -> None:
    verdicts, output = tortured("patroni", (KEPT, PLANTED), tmp_path)
    assert verdicts == {KEPT: "KEPT", PLANTED: "BROKEN"}, output
    assert "look -> missing" in output
