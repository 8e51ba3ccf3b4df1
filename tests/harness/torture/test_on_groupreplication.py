"""Group Replication under torture, in the smallest size: every promise is kept, and histories show what is planted."""

from pathlib import Path

from django.conf import settings

from tests.harness.torture.clustered import tortured, with_cluster

__test__ = settings.DDT_DATABASE == "sqlite"  # it starts its own servers
pytestmark = with_cluster

KEPT = "nodes-in-turn"
PLANTED = "nodes-in-turn:without-waiting"
"""The planted fault: a cancel that finds nothing, where no node waits for the others."""


def test_what_was_added_is_cancelled_through_any_node_and_a_lost_cancel_is_found(tmp_path: Path) -> None:
    verdicts, output = tortured("groupreplication", (KEPT, PLANTED), tmp_path)
    assert verdicts == {KEPT: "KEPT", PLANTED: "BROKEN"}, output
    assert "cancel -> missing" in output


def test_promises_are_kept_with_one_primary_node(tmp_path: Path) -> None:
    verdicts, output = tortured("groupreplication-single", ["nodes"], tmp_path)
    assert verdicts == {"nodes": "KEPT"}, output
