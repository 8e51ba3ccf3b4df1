"""OceanBase's SQL engine on one node: seekdb, which Python's package index has as a package."""

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from harness.servers.downloads import cache_folder, download, made_once
from harness.servers.processes import ServerError, choose_account, start_as
from harness.servers.server import DATABASE, PASSWORD, START_TIMEOUT, USER, Server
from harness.servers.wires import own_network, provide_ip

PACKAGE = "pylibseekdb==1.4.0.post1"
INSTALL_TIMEOUT = 600.0  # seconds
ACCOUNT = (
    f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
    f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
    f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION",
)


def unpacked_package() -> Path:
    """Return the folder with the package, downloaded once into the user's cache; CannotBeHad if there is none."""
    return made_once(cache_folder() / PACKAGE.replace("==", "-"), _download)


def _download(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    command = [*pip, "--target", str(folder), PACKAGE]
    download(command, what_for="seekdb", timeout=INSTALL_TIMEOUT, into=folder)


class SeekDB(Server):
    """One node. It listens on all addresses, so it gets a network of its own; clients reach it through its socket."""

    name = "seekdb"
    scheme = "seekdb"
    stop_signal = signal.SIGKILL  # nothing is kept, and an orderly end takes it long

    def find(self) -> None:
        provide_ip()
        self.package = unpacked_package()
        self.account = choose_account("mysql")

    def initialise(self) -> None:
        # A copy, as the account may not look into the cache of another user.
        for part in ("pylibseekdb", "pylibseekdb.libs"):
            shutil.copytree(self.package / part, self.folder / part)

    def command(self) -> Sequence[str]:
        program = self.folder / "pylibseekdb" / "seekdb"
        return [str(program), "--nodaemon", "--base-dir", str(self.folder), "--port", "2881"]

    @property
    def socket(self) -> Path:
        """The file through which clients reach it."""
        return self.folder / "run" / "sql.sock"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{USER}:{PASSWORD}@{quote(str(self.socket), safe='')}/{DATABASE}"

    def start(self) -> None:
        with own_network():
            self.process = start_as(self.account, self.command(), self.folder, self.log)
        deadline = time.monotonic() + START_TIMEOUT
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"seekdb did not start:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.1)

    def answers(self) -> bool:
        import MySQLdb

        with contextlib.suppress(MySQLdb.Error):
            connection = MySQLdb.connect(unix_socket=str(self.socket), user="root", connect_timeout=2)
            with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
                for sql in ACCOUNT:
                    cursor.execute(sql)
            return True
        return False
