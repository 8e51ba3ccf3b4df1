"""PostgreSQL."""

import glob
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.servers.debian_folder import POSTGRES, debian_folder
from harness.servers.packages import find_program, install
from harness.servers.processes import ServerError, child_environment, choose_account, run_as
from harness.servers.server import DATABASE, MAX_CONNECTIONS, PASSWORD, USER, Server

NEEDED = ("initdb", "postgres", "psql", "pg_isready")


def _number(folder: str) -> float:
    version = Path(folder).parent.name
    return float(version) if version.replace(".", "", 1).isdigit() else 0.0


def find_programs() -> Path | None:
    """The folder with the newest PostgreSQL that has all programs; None without one."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=_number, reverse=True)
    if on_path := find_program(["initdb"]):
        folders.append(str(Path(on_path).resolve().parent))
    for folder in map(Path, folders):
        if all((folder / program).exists() for program in NEEDED):
            return folder
    return None


class Postgres(Server):
    name = "postgres"
    scheme = "postgres"
    stop_signal = signal.SIGINT  # a "fast" shutdown: SIGTERM would wait for the clients

    def find(self) -> None:
        programs = find_programs()
        if programs is None:
            install(["postgresql"], "PostgreSQL")
            programs = find_programs()
        if programs is None:
            raise ServerError("PostgreSQL was installed, but its programs were not found.")
        self.programs = programs
        self.account = choose_account("postgres")

    def initialise(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self.account.own(password)
        auth = "scram-sha-256" if self.durable else "trust"  # a password costs a client as much as the rest of a start
        options = [f"--username={USER}", f"--pwfile={self.inside(password)}", "--encoding=UTF8", "--locale=C.UTF-8"]
        command = [str(self.programs / "initdb"), *options, f"--auth={auth}", self.inside(self.folder / "data")]
        run_as(self.account, command, self.folder, root=self.root)

    def command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.inside(self.folder),
            "max_connections": MAX_CONNECTIONS,
            "fsync": "on" if self.durable else "off",
            "synchronous_commit": "on",
            "timezone": "Asia/Kolkata",
            "shared_buffers": "256MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.programs / "postgres"), "-D", self.inside(self.folder / "data"), *options]

    def answers(self) -> bool:
        ready = self._client("pg_isready", "-q")
        return ready == 0 and self._client("psql", "-q", "-c", f"CREATE DATABASE {DATABASE}") == 0

    def _client(self, program: str, *arguments: str) -> int:
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        environment = {**child_environment(self.folder), "PGPASSWORD": PASSWORD}
        enter = [] if self.root is None else ["chroot", str(self.root)]
        command = [*enter, str(self.programs / program), *address, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode


class Postgres18(Postgres):
    """Debian sid's, in a folder of its own. It stands in for the other one, under the same name."""

    def find(self) -> None:
        self.root = debian_folder(POSTGRES)
        self.programs = Path("/usr/lib/postgresql/18/bin")
        self.account = choose_account("postgres")
