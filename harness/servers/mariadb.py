"""MariaDB."""

import contextlib
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from harness.servers.packages import find_program, install
from harness.servers.processes import choose_account, run_as
from harness.servers.server import DATABASE, MAX_CONNECTIONS, PASSWORD, USER, Server

# The -core packages bring no service; the client's has my_print_defaults, which mariadb-install-db calls.
PACKAGES = ("mariadb-server-core", "mariadb-client-core")


def greets(port: int) -> bool:
    """Whether the server on `port` sends its greeting: it listens earlier than it serves."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        return bool(connection.recv(1))
    return False


def common_options(server: Server) -> list[str]:
    """Options that MariaDB and MySQL share: in no zone that hides a mistake."""
    folder = server.folder
    return [
        f"--datadir={server.inside(folder / 'data')}",
        f"--socket={server.inside(folder / 'server.sock')}",
        f"--pid-file={server.inside(folder / 'server.pid')}",
        f"--init-file={server.inside(folder / 'accounts.sql')}",
        f"--port={server.port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        f"--max-connections={MAX_CONNECTIONS}",
        "--default-time-zone=+05:30",
        f"--character-set-server={server.character_set}",
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-buffer-pool-size=256M",
        *([] if server.durable else ["--innodb-flush-method=nosync"]),
    ]


def write_accounts(server: Server) -> None:
    """The SQL that the server runs when it starts."""
    script = server.folder / "accounts.sql"
    script.write_text(
        f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET {server.character_set};\n"
        f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
    )
    server.account.own(script)


class MariaDB(Server):
    name = "mariadb"
    scheme = "mysql"
    stop_signal = signal.SIGTERM

    def find(self) -> None:
        if self._programs() is None:
            install(PACKAGES, "MariaDB")
        programs = self._programs()
        assert programs is not None
        self.server_program, self.install_program = programs
        self.account = choose_account("mysql")

    def _programs(self) -> tuple[str, str] | None:
        server = find_program(["mariadbd"])
        installer = find_program(["mariadb-install-db", "mysql_install_db"])
        if server and installer and find_program(["my_print_defaults"]):
            return server, installer
        return None

    def initialise(self) -> None:
        base = Path(self.server_program).resolve().parent.parent
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", f"--basedir={base}"]
        command = [self.install_program, "--no-defaults", *options, f"--datadir={self.folder / 'data'}"]
        run_as(self.account, command, self.folder)
        write_accounts(self)

    def command(self) -> Sequence[str]:
        return [self.server_program, "--no-defaults", *common_options(self)]

    def answers(self) -> bool:
        return greets(self.port)
