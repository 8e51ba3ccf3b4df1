"""MySQL: the machine's own, or Debian sid's in a folder of its own."""

import signal
import subprocess
from collections.abc import Sequence

from harness.servers.debian_folder import MYSQL, debian_folder
from harness.servers.mariadb import common_options, greets, write_accounts
from harness.servers.packages import find_program
from harness.servers.processes import choose_account, run_as
from harness.servers.server import Server


def find_on_machine() -> str | None:
    """The machine's mysqld, unless that is MariaDB under its old name."""
    program = find_program(["mysqld"])
    if program is None:
        return None
    command = [program, "--no-defaults", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return None if version.returncode or "MariaDB" in version.stdout else program


class MySQL(Server):
    name = "mysql"
    scheme = "mysql"
    stop_signal = signal.SIGTERM

    def find(self) -> None:
        program = find_on_machine()
        if program is None:
            self.root = debian_folder(MYSQL)
            program = "/usr/sbin/mysqld"
        self.program = program
        self.account = choose_account("mysql")

    def initialise(self) -> None:
        data = self.inside(self.folder / "data")
        options = ["--initialize-insecure", "--secure-file-priv=NULL", f"--datadir={data}"]
        run_as(self.account, [self.program, "--no-defaults", *options], self.folder, root=self.root)
        write_accounts(self)

    def command(self) -> Sequence[str]:
        log = [] if self.durable else ["--sync-binlog=0"]
        options = [*common_options(self), *log, "--secure-file-priv=NULL", "--mysqlx=OFF"]
        return [self.program, "--no-defaults", *options]

    def answers(self) -> bool:
        return greets(self.port)
