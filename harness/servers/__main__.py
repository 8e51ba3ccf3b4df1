"""The command line: start servers, print their URLs, hold them or run a command."""

import argparse
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.servers.commands import Interrupted, catch_signals, run_command, signals_ignored
from harness.servers.mariadb import MariaDB
from harness.servers.mysql import MySQL
from harness.servers.postgres import Postgres, Postgres18
from harness.servers.processes import ServerError
from harness.servers.seekdb import SeekDB
from harness.servers.server import Server

KINDS: dict[str, type[Server]] = {
    "mariadb": MariaDB, "postgres": Postgres, "mysql": MySQL, "postgres18": Postgres18, "seekdb": SeekDB,
}  # fmt: skip
COMMAND_GRACE = 40.0  # seconds between passing a signal on to the command and killing it


def start_all(servers: Sequence[Server]) -> None:
    """Find, prepare (side by side) and start `servers`."""
    for server in servers:
        server.find()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda server: server.prepare(), servers))
    # In the main thread: a child's life hangs on the thread that started it.
    for server in servers:
        server.start()
        print(f"{server.name}={server.url}", flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Options before ``--``, a command after it."""
    parser = argparse.ArgumentParser(prog="python -m harness.servers", description="Start database servers.")
    parser.add_argument("--databases", default="mariadb,postgres", help="a comma list of " + ", ".join(KINDS))
    parser.add_argument("--volatile", action="store_true", help="do without a disk's confirmation of each commit")
    parser.add_argument("--hold", action="store_true", help="stay until SIGTERM or SIGINT")
    own, command = list(arguments), []
    if "--" in own:
        at = own.index("--")
        own, command = own[:at], own[at + 1 :]
    options = parser.parse_args(own)
    options.command = command
    options.names = [name for name in options.databases.split(",") if name]
    if unknown := sorted(set(options.names) - set(KINDS)):
        parser.error(f"unknown database {', '.join(unknown)}: known are {', '.join(KINDS)}")
    if bool(command) == options.hold:
        parser.error("say either --hold or -- command")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    catch_signals()
    servers = [KINDS[name](durable=not options.volatile) for name in options.names]
    try:
        start_all(servers)
        if options.command:
            urls = {f"DATABASE_URL_{server.name.upper()}": server.url for server in servers}
            return run_command(options.command, urls, pass_on=signal.SIGTERM, grace=COMMAND_GRACE)
        while True:
            signal.pause()
    except Interrupted as interrupted:
        return 0 if options.hold else 128 + interrupted.signum
    except ServerError as error:
        print(f"harness.servers: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        with signals_ignored():
            for server in servers:
                server.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
