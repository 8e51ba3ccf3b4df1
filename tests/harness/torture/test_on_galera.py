"""Galera under torture, in the smallest size: every promise is kept, and histories show what is planted."""

from pathlib import Path

from django.conf import settings

from tests.harness.torture.clustered import tortured, with_cluster

__test__ = settings.DDT_DATABASE == "sqlite"  # it starts its own servers
pytestmark = with_cluster

KEPT = ("nodes", "nodes-in-turn")
PLANTED = "nodes-in-turn:without-waiting"
"""The planted fault: a cancel that finds nothing, where no node waits for the others."""


def test_promises_are_kept_and_what_is_planted_is_found(tmp_path: Path) -> None:
    verdicts, output = tortured("galera", (*KEPT, PLANTED), tmp_path)
    assert verdicts == {**dict.fromkeys(KEPT, "KEPT"), PLANTED: "BROKEN"}, output
    assert "cancel -> missing" in output
