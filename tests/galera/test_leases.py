"""A mutex and a pool, used on three nodes at once, of which one is killed. In the run on MariaDB only."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.servers.galera import Cluster, Node
from tests.galera.holders import POOL
from tests.leases.test_contention import leases, never_two, read_notes
from tests.processes.children import Child
from tests.processes.waiting import wait_until

PROGRAM = (
    "import django; django.setup(); from django.core.management import call_command;"
    " call_command('migrate', 'django_delayed_tasks', verbosity=0); from django_delayed_tasks.leases import Pool;"
    f" [Pool('{POOL}').add(name) for name in 'ab']"
)
TURNS = 8
"""How often something is acquired before the node is killed, and on each of the others afterwards."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def environment(node: Node) -> dict[str, str]:
    ours = {"DDT_DATABASE": "galera", "DATABASE_URL_GALERA": node.url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    return {**os.environ, **ours}


def test_never_two_holders_while_a_node_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment(cluster.nodes[0]), check=True, timeout=120)
    with ExitStack() as stack:
        children = []
        for node in cluster.nodes:
            log = tmp_path / f"{node.number}.log"
            child = Child(["-m", "tests.galera.holders", str(tmp_path)], environment(node), log, None)
            stack.callback(child.close)
            children.append(child)
        struck = children[2].pid

        def turns(child: Child) -> int:
            return sum(note.event == "got" and note.pid == child.pid for note in read_notes(tmp_path / "notes", struck))

        wait_until(lambda: all(turns(child) >= TURNS for child in children))
        cluster.nodes[2].kill()
        before = [turns(child) for child in children[:2]]
        wait_until(lambda: all(turns(child) >= had + TURNS for child, had in zip(children, before, strict=False)))
        (tmp_path / "stop").touch()
        for child in children[:2]:
            assert child.exit_code() == 0, child.output

    notes = read_notes(tmp_path / "notes", struck)
    assert never_two(notes) == []
    held = leases(notes)
    assert {lease.name for lease in held} == {"a", "b", "index"}
    for name in ("a", "b", "index"):
        tokens = [lease.token for lease in sorted(held, key=lambda lease: lease.begin) if lease.name == name]
        assert tokens == sorted(set(tokens))
