"""The command line: ``python -m harness.suite tests|check|all``: ``make test``, ``make check``, ``make test-all``.

A step that fails is run once more, with no other at the same time (of tests only those that failed). If it passes then,
the table "flaky" names it: that is as serious a bug as what fails twice.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness import ROOT
from harness.servers.commands import Interrupted, catch_signals
from harness.suite import choice, leaving_out, reach
from harness.suite.parts import DATABASES, NOT_QUICK
from harness.suite.running import AT_ONCE, Runner, held_servers, missed_servers, run_failed_again
from harness.suite.steps import cpu_of_children, table


def main(arguments: Sequence[str]) -> int:
    given = parse(arguments)
    catch_signals()
    os.chdir(ROOT)
    try:
        with tempfile.TemporaryDirectory(prefix="ddt-suite-") as folder:
            return run(given, Path(folder))
    except Interrupted as interrupted:
        return 128 + interrupted.signum


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m harness.suite",
        description=__doc__,
        epilog="All other arguments are options of pytest, which choose tests by hand.",
        allow_abbrev=False,
    )
    parser.add_argument("what", choices=["tests", "check", "all"], help="the tests; with the checks; all of both")
    parser.add_argument("--databases", default=",".join(DATABASES), help="a comma list (default: %(default)s)")
    parser.add_argument("--optional", default="", help="those of them to do without where they cannot be had")
    given, options = parser.parse_known_args(arguments)
    given.options = options
    given.databases, given.optional = in_order(given.databases), in_order(given.optional)
    if unknown := {*given.databases, *given.optional} - {*DATABASES}:
        parser.error(f"unknown database {', '.join(sorted(unknown))}: known are {', '.join(DATABASES)}")
    if not given.databases:
        parser.error("say at least one database")
    return given


def in_order(names: str) -> list[str]:
    """SQLite first, since it needs no server and fails soonest; no name twice."""
    return sorted(filter(None, set(names.split(","))), key=lambda name: (name != "sqlite", name))


def run(given: argparse.Namespace, folder: Path) -> int:
    """Run what was chosen and say what came of it; return the exit status."""
    began = time.monotonic()
    os.environ[leaving_out.LEFT_OUT] = str(noted := folder / "left-out")
    steps = choice.steps(given.what, given.databases, given.options, folder)
    print(f"On {', '.join(given.databases)}: {', '.join(dict.fromkeys(step.name for step in steps))}.")
    print("What each says comes at its end.", flush=True)
    with held_servers(given.databases) as servers:
        runner = Runner(steps, servers, at_once=1 if given.options else AT_ONCE)
        runner.run()
        run_failed_again(runner.ended, servers)
        lost = [name for name, server in servers.items() if server.has_ended()]
        missed = missed_servers(servers, given.optional)
        without = {f"{name}: all tests on it": servers[name].why() for name in lost if name not in missed}
    print(table(runner.ended))
    if choice.is_quick(given.what, given.databases):
        print(f"Left out with SQLite alone, which is for a quick look: {', '.join(NOT_QUICK)}.")
    left_out = without | leaving_out.left_out(noted)
    leaving_out.say(left_out)
    failed = [step.title for step in runner.ended if step.status] or (["nothing ran"] if not runner.ended else [])
    failed += missed
    if given.what == "all" and not given.options and not reach.report(folder, [*{*given.databases} - {*lost}]):
        failed.append("the reach of a landing")
    if given.what == "all":
        failed += left_out
    print(f"{time.monotonic() - began:.0f} seconds in all, {cpu_of_children():.0f} CPU seconds with the servers")
    print(f"FAILED: {', '.join(failed)}" if failed else "All others passed." if left_out else "All passed.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
