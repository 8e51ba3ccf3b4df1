"""A cluster of three MySQL nodes with Group Replication: started, killed, cut off, joined again, led by another one.

``python -m harness.servers.groupreplication [--single-primary] [-- command …]`` holds one, or runs a command with
DATABASE_URL_GROUPREPLICATION_1 and so on.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from harness.servers.mariadb import common_options, write_accounts
from harness.servers.mysql import MySQL
from harness.servers.nodes import JOIN_TIMEOUT, NODES, PATIENCE, ClusterNode, NodesOfCluster, hold
from harness.servers.processes import ServerError, start_as
from harness.servers.server import PASSWORD, USER, Server
from harness.servers.wires import Loopback, Wires

GROUP = "6464742d-6772-4f75-9001-000000000001"
SUSPECTED_AFTER = 3  # seconds without a majority after which a node gives up, and ends what waits there
ACCOUNT = f"USER='{USER}', PASSWORD='{PASSWORD}'"
_MEMBERS = "SELECT member_id, member_state, member_role FROM performance_schema.replication_group_members"


class Node(ClusterNode, MySQL):
    """One node of MySQL."""

    name = "groupreplication"

    def __init__(self, number: int, wires: Wires, is_single_primary: bool = False) -> None:
        super().__init__(number, wires)
        self.is_single_primary = is_single_primary
        self.seeds = ""
        self.model: Node | None = None
        """The node whose files are copied, instead of being written once more."""
        self._joins_by_itself = False

    def initialise(self) -> None:
        if self.model is None:
            super().initialise()
        else:
            source = self.model.folder / "data"
            subprocess.run(["cp", "-a", str(source), str(self.folder / "data")], check=True, timeout=60)
            (self.folder / "data" / "auto.cnf").unlink(missing_ok=True)  # which has the server's identity
            write_accounts(self)
        accounts = self.folder / "accounts.sql"
        # Each node makes them for itself: what only one has done may not be in its log when it joins.
        accounts.write_text("SET sql_log_bin = 0;\n" + accounts.read_text())

    def command(self) -> Sequence[str]:
        ours = self.addresses
        others = ("--bind-", "--innodb-buffer", *(["--init-file"] if self._joins_by_itself else []))
        return [
            self.program,
            "--no-defaults",
            *(option for option in common_options(self) if not option.startswith(others)),
            "--bind-address=0.0.0.0",
            "--innodb-buffer-pool-size=48M",
            "--secure-file-priv=NULL",
            "--mysqlx=OFF",
            f"--server-id={self.number}",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            f"--report-host={ours.peers}",
            f"--report-port={self.port}",
            "--plugin-load-add=group_replication.so",
            f"--group-replication-start-on-boot={'ON' if self._joins_by_itself else 'OFF'}",
            # A node that then cannot join takes writes otherwise, all by itself.
            f"--super-read-only={'ON' if self._joins_by_itself else 'OFF'}",
            f"--group-replication-group-name={GROUP}",
            f"--group-replication-local-address={ours.peers}:{self.base}",
            f"--group-replication-group-seeds={self.seeds}",
            f"--group-replication-single-primary-mode={'ON' if self.is_single_primary else 'OFF'}",
            f"--group-replication-enforce-update-everywhere-checks={'OFF' if self.is_single_primary else 'ON'}",
            "--group-replication-recovery-get-public-key=ON",
            f"--group-replication-unreachable-majority-timeout={SUSPECTED_AFTER}",
            f"--group-replication-member-expel-timeout={SUSPECTED_AFTER}",
        ]

    def start(self) -> None:
        """Start the node, which joins the others if it was a member; :meth:`await_ready` waits until it is one."""
        with self.wires.inside(self.number):
            self.process = start_as(self.account, self.command(), self.folder, self.log, root=self.root)

    def await_answer(self) -> None:
        """Wait until the server takes connections."""
        deadline = time.monotonic() + JOIN_TIMEOUT
        while not self._can_be_asked():
            if not self.is_alive or time.monotonic() > deadline:
                raise ServerError(f"node {self.number} did not start:\n{self.log.read_text(errors='replace')[-6000:]}")
            time.sleep(0.1)

    def _can_be_asked(self) -> bool:
        with contextlib.suppress(Exception):
            return bool(self.ask("SELECT 1"))
        return False

    def begin_group(self) -> None:
        """Be the first member of a new group, with the data that is there."""
        self.ask("SET GLOBAL group_replication_bootstrap_group = ON")
        self.join()
        self.ask("SET GLOBAL group_replication_bootstrap_group = OFF")

    def join(self) -> None:
        """Become a member; after its next start it does so by itself."""
        source = ACCOUNT.replace("USER=", "SOURCE_USER=").replace("PASSWORD=", "SOURCE_PASSWORD=")
        self.ask(f"CHANGE REPLICATION SOURCE TO {source} FOR CHANNEL 'group_replication_recovery'")
        self.ask("START GROUP_REPLICATION", patience=120)
        self._joins_by_itself = True

    def members(self) -> dict[str, tuple[str, str]]:
        """Return the state and role of each member that this node knows, by its id; nothing if it does not answer."""
        with contextlib.suppress(Exception):
            return {str(member): (str(state), str(role)) for member, state, role in self.ask(_MEMBERS)}
        return {}

    @property
    def id(self) -> str:
        """The server's own identity."""
        return str(self.ask("SELECT @@server_uuid")[0][0])

    @property
    def state(self) -> str:
        """What the node says of itself: ONLINE, RECOVERING, ERROR or OFFLINE; "" if it does not answer."""
        with contextlib.suppress(Exception):
            members = self.members()
            return members.get(self.id, ("OFFLINE", ""))[0] if members else ""
        return ""

    def is_ready(self) -> bool:
        return self.state == "ONLINE" and 2 * self.size() > NODES

    def size(self) -> int:
        return sum(state == "ONLINE" for state, _ in self.members().values())

    def isolate(self, is_isolated: bool) -> None:
        if is_isolated:
            self.ask("STOP GROUP_REPLICATION", patience=60)

    def mend(self) -> None:
        """Undo :meth:`cut` and :meth:`vanish`: what has given up, and would try again in minutes, joins at once."""
        super().mend()
        time.sleep(SUSPECTED_AFTER)  # it may still be told that the others have expelled it
        self.join_again()

    def join_again(self) -> None:
        if self.is_alive and self.state in ("OFFLINE", "ERROR"):
            with contextlib.suppress(Exception):  # refused while the others have not agreed yet who is a member
                self.ask("STOP GROUP_REPLICATION", patience=60)
                self.ask("START GROUP_REPLICATION", patience=120)


class Cluster(NodesOfCluster[Node]):
    """Three nodes, of which each takes writes, or only the primary one."""

    def __init__(self, is_single_primary: bool = False) -> None:
        super().__init__(partial(Node, is_single_primary=is_single_primary))
        for node in self.nodes:
            node.seeds = ",".join(f"{one.addresses.peers}:{one.base}" for one in self.nodes)

    @classmethod
    def parts(cls) -> Sequence[Server]:
        return [Node(0, Loopback())]

    def start(self) -> None:
        """Start all nodes; the first begins the group."""
        first, *others = self.nodes
        first.prepare()
        for node in others:
            node.model = first
            node.prepare()
        self._start_from(first)

    def await_gone(self) -> None:
        """Wait until the others have expelled the node: one that joins before that keeps them from it, and gives up."""
        deadline = time.monotonic() + PATIENCE
        while any(len(node.members()) == NODES for node in self.nodes):
            if time.monotonic() > deadline:
                raise ServerError(f"a node is still a member: {[node.members() for node in self.nodes]}")
            time.sleep(0.1)

    def restart(self) -> None:
        """Restart all nodes after they were killed: the one with the latest data begins the group again."""
        for node in self.nodes:
            node._joins_by_itself = False
        self._start_from(None)

    def _start_from(self, first: Node | None) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.await_answer()
        first = first or self._furthest()
        first.begin_group()
        for node in self.nodes:
            if node is not first:
                node.join()
        for node in self.nodes:
            node.await_ready()

    def _furthest(self) -> Node:
        executed = {node: str(node.ask("SELECT @@gtid_executed")[0][0]) for node in self.nodes}

        def has_all(node: Node) -> bool:
            return all(
                node.ask(f"SELECT GTID_SUBSET('{of_other}', '{executed[node]}')")[0][0]
                for of_other in executed.values()
            )

        return next(node for node in self.nodes if has_all(node))

    def primary(self) -> Node:
        """Return the node that takes the writes, as the nodes that are ready see it; ServerError if there is none."""
        for seen_by in filter(Node.is_ready, self.nodes):
            roles = {member: role for member, (_, role) in seen_by.members().items()}
            for node in self.nodes:
                with contextlib.suppress(Exception):
                    if roles.get(node.id) == "PRIMARY":
                        return node
        raise ServerError("the group has no primary node")

    def switch_over(self, to: Node) -> None:
        """Let another node take the writes; returns when it does."""
        to.ask(f"SELECT group_replication_set_as_primary('{to.id}')", patience=60)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    is_single = arguments[:1] == ["--single-primary"]
    sys.exit(hold("GROUPREPLICATION", partial(Cluster, is_single), arguments[is_single:]))
