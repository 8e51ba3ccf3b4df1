"""One database, one scenario after the other. A process of its own: it writes lines of JSON to its parent."""

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.servers.commands import Interrupted, catch_signals
from harness.servers.processes import ServerError
from harness.torture import bugs, databases
from harness.torture.databases import Database
from harness.torture.scenario import Scenario, scenarios

if TYPE_CHECKING:
    from harness.torture.world import World

Tell = Callable[[str, Any], None]
SHOW_EVERY = 0.5


def main(arguments: list[str]) -> int:
    """0 when all scenarios came to an end, whatever their verdicts."""
    options = _parse(arguments)
    catch_signals()
    try:
        return _run_all(options)
    except ServerError as error:
        print(f"{options.database}: {error}", file=sys.stderr, flush=True)
        return 1


def _run_all(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="ddt-torture-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        database = databases.create(options.database, folder)
        try:
            _tell("state", "starting the server")
            database.start()
            _configure(database)
            for scenario, bug in _chosen(options.scenario, database.kind):
                _tell("result", run(scenario, bug, database, folder, options, _tell))
        except Interrupted as interrupted:
            return 128 + interrupted.signum
        finally:
            database.stop()
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m harness.torture.runner")
    parser.add_argument("--database", required=True)
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--size", default="full")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--logs", type=Path)
    return parser.parse_args(arguments)


def _chosen(names: list[str], database: str) -> list[tuple[Scenario, str]]:
    """The scenarios that make sense here, each with the bug to be put into its executors, if any."""
    known = {scenario.name: scenario for scenario in scenarios() if database in scenario.databases}
    wanted = [name.partition(":") for name in names]
    return [(known[name], bug) for name, _, bug in wanted if name in known]


def _tell(what: str, value: Any) -> None:
    print(json.dumps({what: value}), flush=True)


def _configure(database: Database) -> None:
    """Set up Django and create the tables."""
    os.environ.update({"DJANGO_SETTINGS_MODULE": "harness.torture.settings", **database.environment(database.url)})
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)


def run(scenario: Scenario, bug: str, database: Database, folder: Path, options: argparse.Namespace, tell: Tell) -> Any:
    """The result of one scenario, as JSON."""
    from harness.torture import result
    from harness.torture.world import World

    result.empty_tables()
    size = scenario.sizes[options.size]
    if options.tasks:
        size = replace(size, tasks=options.tasks)
    with tempfile.TemporaryDirectory(prefix="world-", dir=folder) as name:
        world = World(
            database,
            Path(name),
            size,
            f"{options.seed} {scenario.name} {database.name}",
            scenario.settings,
            _Screen(scenario, tell),
            options.minutes,
            bug,
        )
        tell("state", f"{scenario.name}: starting")
        with bugs.in_driver(bug):
            trouble = _carry_out(scenario, world)
        found = {**result.of(scenario, world, trouble), "bug": bug}
        if options.logs:
            result.keep_logs(Path(name), options.logs / f"{scenario.name}-{database.name}")
        return found


def _carry_out(scenario: Scenario, world: "World") -> str:
    """Run it to its end; what went wrong with the run itself, or nothing."""
    trouble = ""
    for step in (partial(scenario.run, world), world.heal_all, world.drain, world.finish):
        # What follows is done in any case, as far as it goes: more may be learnt from it.
        try:
            step()
        except Exception:
            trouble = trouble or traceback.format_exc()
    return trouble


class _Screen:
    """Tells how things stand, now and then."""

    def __init__(self, scenario: Scenario, tell: Tell) -> None:
        self._scenario = scenario
        self._tell = tell
        self._shown = 0.0

    def __call__(self, world: "World") -> None:
        if time.monotonic() - self._shown < SHOW_EVERY:
            return
        self._shown = time.monotonic()
        self._tell("progress", world.progress(self._scenario.name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
