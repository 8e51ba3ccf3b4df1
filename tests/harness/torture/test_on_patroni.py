"""Patroni under torture, in the smallest size: every promise is kept."""

from pathlib import Path

from django.conf import settings

from tests.harness.torture.clustered import tortured, with_cluster

__test__ = settings.DDT_DATABASE == "sqlite"  # it starts its own servers
pytestmark = with_cluster


def test_promises_are_kept(tmp_path: Path) -> None:
    verdicts, output = tortured("patroni", ["nodes"], tmp_path)
    assert verdicts == {"nodes": "KEPT"}, output
