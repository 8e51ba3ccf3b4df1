"""PgBouncer before a PostgreSQL server that runs already."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from harness.servers.packages import find_program, install
from harness.servers.processes import ServerError, choose_account
from harness.servers.server import Server

POOL_SIZE = 40


class PgBouncer(Server):
    """Passes each database on, under the account of ``server``, an entry of Django's ``DATABASES``.

    It gives its clients the sessions of the server in turn, so that what is meant for one session meets another.
    """

    name = "pgbouncer"
    scheme = "postgres"
    stop_signal = signal.SIGKILL  # it has nothing to lose, and waits for its clients at any other

    def __init__(self, server: Mapping[str, Any], mode: str) -> None:
        """``mode`` is "transaction" or "session"."""
        super().__init__()
        self._server = server
        self._mode = mode

    def find(self) -> None:
        program = find_program(["pgbouncer"])
        if program is None:
            install(["pgbouncer"], "PgBouncer")
            program = find_program(["pgbouncer"])
        if program is None:
            raise ServerError("PgBouncer was installed, but its program was not found.")
        self.program = program
        self.account = choose_account("postgres")

    def initialise(self) -> None:
        """Do nothing: PgBouncer has no data."""

    def command(self) -> Sequence[str]:
        server = self._server
        where = f"host={server['HOST']} port={server['PORT']} user={server['USER']} password={server['PASSWORD']}"
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": self._mode,
            "default_pool_size": POOL_SIZE,
            "server_round_robin": 1,
        }
        lines = [
            "[databases]",
            f"* = {where}",
            "[pgbouncer]",
            *(f"{name} = {value}" for name, value in settings.items()),
        ]
        path = self.folder / "pgbouncer.ini"
        path.write_text("\n".join(lines))
        self.account.own(path)
        return [self.program, str(path)]

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url_of("postgres"), connect_timeout=5, autocommit=True) as connection:
                return connection.execute("SELECT 1").fetchone() is not None
        except psycopg.Error:
            return False

    def url_of(self, database: str) -> str:
        server = self._server
        return f"postgres://{server['USER']}:{server['PASSWORD']}@127.0.0.1:{self.port}/{database}"
