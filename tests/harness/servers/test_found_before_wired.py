"""What a cluster consists of is found or made before its network, from which nothing outside can be reached.

On a machine that has nothing: the programs that install, and the folder's making, are replaced by ones that note it.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.servers import galera, groupreplication, packages, patroni, wires
from harness.servers.nodes import NodesOfCluster
from harness.servers.processes import ServerError
from harness.servers.wires import Namespaces, own_network

APT_GET = """#!/bin/sh
if [ "$1" = indextargets ]; then echo 'Debian|Debian|main|http://debian.invalid'; fi
for name; do
    if [ -d {folder}/packages/$name ]; then
        echo "apt: $name" >> {folder}/noted
        /bin/cp -p {folder}/packages/$name/* {folder}/bin
    fi
done
"""
DEBOOTSTRAP = "#!/bin/sh\necho 'made: folder of Debian' >> {folder}/noted\n"
CHROOT = "#!/bin/sh\necho 'mysqld  Ver 9.7.0'\n"
PACKAGES = {
    "debootstrap": {"debootstrap": DEBOOTSTRAP},
    "etcd-server": {"etcd": ""},
    "galera-4": {"libgalera_smm.so": ""},
    "haproxy": {"haproxy": ""},
    "iproute2": {"ip": "", "ss": ""},
    "mariadb-server": dict.fromkeys(("mariadbd", "mariadb-install-db", "my_print_defaults", "wsrep_sst_rsync"), ""),
    "postgresql": dict.fromkeys(("initdb", "postgres", "psql", "pg_isready"), ""),
    "rsync": {"rsync": ""},
}
"""What apt-get installs here: the programs of each package."""
OF_GALERA = {"apt: galera-4", "apt: iproute2", "apt: mariadb-server", "apt: rsync"}
OF_MYSQL = {"apt: debootstrap", "made: folder of Debian"}
OF_PATRONI = {"apt: etcd-server", "apt: haproxy", "made: Patroni"}
WIRED = "wired"


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of what was installed, made and wired, on a machine where nothing was run before."""
    (tmp_path / "bin").mkdir()
    programs = {f"packages/{name}/{program}": text for name, one in PACKAGES.items() for program, text in one.items()}
    for place, text in {**programs, "bin/apt-get": APT_GET, "bin/chroot": CHROOT}.items():
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(folder=tmp_path))
        path.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(packages, "USUAL_FOLDERS", ())
    monkeypatch.setattr(packages, "DPKG", tmp_path)
    monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(galera, "PROVIDERS", (str(tmp_path / "bin/libgalera_smm.so"),))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(patroni, "_python_for", lambda account: ("python3", "3.11"))
    monkeypatch.setattr(patroni, "_install", lambda python, folder: note(tmp_path / "noted", "made: Patroni"))
    return tmp_path / "noted"


def note(place: Path, what: str) -> None:
    with place.open("a") as noted:
        noted.write(f"{what}\n")


def seen(noted: Path) -> Sequence[str]:
    return noted.read_text().splitlines()


@pytest.mark.parametrize(
    ("cluster", "made"),
    [
        (galera.Cluster, OF_GALERA),
        (groupreplication.Cluster, OF_MYSQL),
        (partial(groupreplication.Cluster, is_single_primary=True), OF_MYSQL),
        (patroni.Cluster, OF_PATRONI),
    ],
    ids=["galera", "groupreplication", "groupreplication-single", "patroni"],
)
def test_all_of_a_cluster(cluster: Any, made: set[str], noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(nodes: int) -> None:
        note(noted, WIRED)
        raise ServerError("not permitted here")

    monkeypatch.setattr(wires, "Namespaces", refused)
    started: NodesOfCluster[Any] = cluster()
    assert len(started.nodes) == 3
    *before, last = seen(noted)
    assert last == WIRED
    assert WIRED not in before
    assert made <= {*before}


@pytest.mark.parametrize("enter", [partial(Namespaces, 3), lambda: own_network().__enter__()], ids=["nodes", "seekdb"])
def test_the_program_that_wires(enter: Any, noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        @staticmethod
        def unshare(what: int) -> int:
            note(noted, WIRED)
            return -1

        @staticmethod
        def setns(where: int, what: int) -> int:
            return 0

    monkeypatch.setattr(wires, "_libc", Refusing)
    with pytest.raises(ServerError, match="unshare"):
        enter()
    assert seen(noted) == ["apt: iproute2", WIRED]
