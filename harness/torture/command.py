"""``python -m harness.torture``."""

import argparse
import json
import os
import secrets
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.servers.commands import Interrupted, catch_signals
from harness.servers.processes import die_with_parent
from harness.torture import report
from harness.torture.bugs import BUGS
from harness.torture.databases import KNOWN
from harness.torture.scenario import scenarios
from harness.torture.screen import Screen

DATABASES = ("mariadb", "postgres", "sqlite")
MIX = "mix"


def main(arguments: Sequence[str]) -> int:
    """0 when every promise was kept, 1 when one was broken, 2 when something could not be run."""
    _configure()
    options = _parse(arguments)
    if options.list:
        print(report.listing(scenarios()))
        return 0
    catch_signals()
    screen = Screen(options.databases)
    results: list[dict[str, Any]] = []
    try:
        codes = _run_all(options, screen, results)
    except Interrupted as interrupted:
        return 128 + interrupted.signum
    finally:
        screen.close()
        document = report.document(results, options.seed, options.size)
        if options.json:
            options.json.write_text(json.dumps(document, indent=2) + "\n")
        print(report.text(document))
    if any(codes):
        print("A runner ended before its time; its messages are above.")
        return 2
    return 0 if results and document["verdict"] == "KEPT" else 1


def _configure() -> None:
    """The scenarios can only be imported where there is Django; their databases are the runners' business."""
    os.environ.update({"DJANGO_SETTINGS_MODULE": "harness.torture.settings", "DDT_DATABASE": "sqlite"})
    import django

    django.setup()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m harness.torture", description="Break everything that can break, and see that no promise does."
    )
    parser.add_argument(
        "--scenario", action="append", metavar="NAME[:BUG]",
        help="which to run (default: mix), or 'all'; with a bug, put into the executors, that must be found (bugs.py)",
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=10, help="how long the mix lasts (default 10)")
    parser.add_argument("--seed", default=None, help="the same seed throws the same dice (default: a new one)")
    parser.add_argument(
        "--databases", default=",".join(DATABASES),
        help=f"a comma list of {', '.join(KNOWN)} (default: %(default)s). With -latin1, that is the default character"
        " set of server and database, as it is in old projects.",
    )  # fmt: skip
    parser.add_argument("--size", default="full", choices=("short", "full"), help="of the scenarios")
    parser.add_argument("--tasks", type=int, help="number of calls, instead of the scenario's own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the executors' output there")
    parser.add_argument(
        "--lanes", type=int, default=1, help="servers of each kind, to share the scenarios between them"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    options = parser.parse_args(arguments)
    known = [scenario.name for scenario in scenarios()]
    options.scenario = known if options.scenario == ["all"] else options.scenario or [MIX]
    names = [name.partition(":") for name in options.scenario]
    if unknown := sorted({name for name, _, bug in names if name not in known or bug not in ("", *BUGS)}):
        parser.error(f"not known: {', '.join(unknown)}; scenarios are {', '.join(known)}; bugs are {', '.join(BUGS)}")
    options.databases = [name for name in options.databases.split(",") if name]
    if strange := sorted({*options.databases} - {*KNOWN}):
        parser.error(f"not known: {', '.join(strange)}; databases are {', '.join(KNOWN)}")
    options.seed = options.seed or secrets.token_hex(4)
    return options


def _run_all(options: argparse.Namespace, screen: Screen, results: list[dict[str, Any]]) -> list[int]:
    lanes = [options.scenario[lane :: options.lanes] for lane in range(options.lanes)]
    runners = {
        f"{name} {number + 1}" if len(lanes) > 1 else name: _start(name, options, lane)
        for name in options.databases
        for number, lane in enumerate(lanes)
        if lane
    }
    try:
        for name, message in _messages(runners):
            screen.hear(name, message)
            if found := message.get("result"):
                results.append(found)
        return [runner.wait() for runner in runners.values()]
    finally:
        for runner in runners.values():
            runner.terminate()
        for runner in runners.values():
            runner.wait(60)


def _start(name: str, options: argparse.Namespace, scenarios: list[str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "harness.torture.runner", "--database", name, "--seed", options.seed]
    command += ["--size", options.size, "--minutes", str(options.minutes)]
    command += [word for scenario in scenarios for word in ("--scenario", scenario)]
    command += ["--tasks", str(options.tasks)] if options.tasks else []
    command += ["--logs", str(options.logs)] if options.logs else []
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=lambda: die_with_parent(15)
    )


def _messages(runners: "dict[str, subprocess.Popen[bytes]]") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the messages of the runners until all have ended."""
    waiting = selectors.DefaultSelector()
    for name, runner in runners.items():
        assert runner.stdout is not None
        waiting.register(runner.stdout, selectors.EVENT_READ, name)
    parts = dict.fromkeys(runners, b"")
    while waiting.get_map():
        for key, _ in waiting.select():
            chunk = os.read(key.fd, 65536)
            if not chunk:
                waiting.unregister(key.fileobj)
            *lines, parts[key.data] = (parts[key.data] + chunk).split(b"\n")
            for line in lines:
                yield key.data, _message(key.data, line)


def _message(name: str, line: bytes) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{name} said what is no message: {line!r}") from error
    return message
