"""Run the tests on each database, in parts side by side, and end with a table.

``python -m harness.scripts.run_suite sqlite,mariadb,postgres [pytest options]``. A part is a process of pytest,
with a database of its own on the same server. With options there is one process for each database, and the terminal is
its own.

A test that fails in a part is run once more, with no other test at the same time. If it passes then, the part counts
as passed, and the table "flaky" names the test: it is as serious a bug as a test that fails twice.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT
from harness.servers.commands import Interrupted, catch_signals, end_commands, start_command, status_of

KNOWN = ("sqlite", "mariadb", "postgres", "mysql")
GRACE = 20.0  # seconds that pytest has to clean up when this process is interrupted
LOOK_EVERY = 0.1  # seconds
TESTS_FAILED = 1  # pytest's exit code; others say that pytest itself could not go through

# Tests that measure the work of the whole machine or server: nothing else may run at the same time.
ALONE = (
    "tests/leases/test_contention.py",
    "tests/store/claiming/test_old_snapshots.py",
    "tests/executor/settling/test_settler.py",
)
# Tests that run side by side; many of them wait more than they compute.
OUTAGES = tuple(f"tests/processes/test_{name}.py" for name in ("killed", "notified", "outage"))
FAULTS = ("tests/harness/torture", "tests/harness/commands", "tests/galera", "tests/test_docs_followed.py", *OUTAGES)
PROCESSES = ("tests/processes",)
EXAMPLES = ("tests/examples",)
LEASES = ("tests/leases",)
PAGES = ("tests/admin", "tests/shop", "tests/fuzz")
ENGINE = ("tests/executor", "tests/races", "tests/recurring")
STORE = ("tests/store", "tests/api", "tests/charsets")
# Tests that do not depend on the database: of sources, of scripts, and with programs and packages from outside.
ONCE = ("tests/outside", "tests/harness/scripts", "tests/triggers", "tests/test_layers.py", "tests/test_typing.py")


def without(paths: Sequence[str]) -> tuple[str, ...]:
    """Options that leave these out."""
    return tuple(f"--ignore={path}" for path in paths)


SIDE_BY_SIDE = {
    "faults": FAULTS,
    "processes": (*PROCESSES, *without(OUTAGES)),
    "examples": EXAMPLES,
    "leases": (*LEASES, *without(ALONE)),
    "pages": PAGES,
    "engine": (*ENGINE, *without(ALONE)),
    "once": ONCE,
    "store": (*STORE, *without(ALONE)),
    "all else": without((*FAULTS, *PROCESSES, *EXAMPLES, *LEASES, *PAGES, *ENGINE, *ONCE, *STORE, *ALONE)),
}

# What a page or a process asks of MySQL is the same as of MariaDB, down to the dialect; what goes wrong there is not.
ALIKE = {("mysql", name): "mariadb" for name in ("pages", "processes", "examples")}


def is_covered(database: str, name: str, databases: Sequence[str]) -> bool:
    """Return whether this part also runs on a database that is the same to it."""
    if name == "once":
        return database != databases[0]
    return ALIKE.get((database, name)) in databases


@dataclass
class Part:
    """The tests that `options` choose, on one database; `folder` keeps what they print, else the terminal shows it."""

    database: str
    name: str
    options: Sequence[str]
    folder: Path | None = None
    seconds: float = 0.0
    status: int = -1
    flaky: Sequence[str] = ()

    def start(self) -> "subprocess.Popen[bytes]":
        self.seconds = -time.monotonic()
        more = () if self.folder is None else ("-o", f"cache_dir={self.folder / 'cache'}", "--durations=15")
        command = [sys.executable, "-m", "pytest", *more, *self.options]
        # Children begin sooner with modules that are compiled already.
        extra = {"DDT_DATABASE": self.database, "PYTHONDONTWRITEBYTECODE": ""}
        # SIGINT, since pytest cleans up after that one only.
        if self.folder is None:
            return start_command(command, extra, pass_on=signal.SIGINT)
        self.folder.mkdir(exist_ok=True)
        with self.output.open("wb") as output:
            return start_command(command, extra, pass_on=signal.SIGINT, output=output.fileno())

    @property
    def output(self) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.name}.txt"

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Take its result, and show its output where the terminal has not."""
        self.status = status_of(process)
        self.seconds += time.monotonic()
        if self.folder:
            self.show()

    def show(self) -> None:
        print(f"\n--- {self.database}: {self.name} ---\n{self.text()}", flush=True)

    def text(self) -> str:
        """Return its output so far."""
        return self.output.read_text(errors="replace").rstrip()

    def failed(self) -> list[str]:
        """The ids of the tests whose last run failed, as pytest's cache has them."""
        assert self.folder is not None
        last_failed = self.folder / "cache/v/cache/lastfailed"
        return sorted(json.loads(last_failed.read_text())) if last_failed.exists() else []

    def failed_again(self) -> "Part":
        """A part with the failed tests of this one."""
        options = [*self.options, "--last-failed", "--last-failed-no-failures=none"]
        return Part(self.database, f"{self.name}, again", options, self.folder)

    def closing_line(self) -> str:
        """Pytest's own summary."""
        return self.text().rpartition("\n")[2].strip("= ") if self.folder else ""


def run_lanes(lanes: Sequence[Sequence[Part]]) -> None:
    """Run the lanes side by side, and in each lane one part after the other."""
    waiting = [list(lane) for lane in lanes]
    running: dict[int, tuple[Part, subprocess.Popen[bytes]]] = {}
    try:
        while running or any(waiting):
            for number, lane in enumerate(waiting):
                if lane and number not in running:
                    part = lane.pop(0)
                    running[number] = part, part.start()
            time.sleep(LOOK_EVERY)
            for number, (part, process) in list(running.items()):
                if process.poll() is not None:
                    del running[number]
                    part.end(process)
    except Interrupted as interrupted:
        end_commands([process for _, process in running.values()], interrupted, pass_on=signal.SIGINT, grace=GRACE)
        for part, process in running.values():
            part.end(process)
        raise


def in_order(names: Sequence[str]) -> list[str]:
    """SQLite first, since it needs no server and fails soonest; no name twice."""
    return sorted(dict.fromkeys(names), key=KNOWN.index)


def side_by_side(databases: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The parts that these databases have. With SQLite alone a developer waits for the answer."""
    is_quick_look = databases == ["sqlite"]
    return {name: options for name, options in SIDE_BY_SIDE.items() if not (is_quick_look and name == "faults")}


def run_in_parts(databases: Sequence[str], folder: Path) -> list[Part]:
    """Run the parts in as little time as possible; return them by database. `folder` is for their output."""

    def parts_of(name: str, options: Sequence[str]) -> list[Part]:
        chosen = [database for database in databases if not is_covered(database, name, databases)]
        return [Part(database, name, options, folder / f"{database}-{name}") for database in chosen]

    chosen = side_by_side(databases)
    lanes = [parts_of(name, options) for name, options in chosen.items()]
    alone = parts_of("alone", ALONE)
    print(
        f"Side by side on {', '.join(databases)}: {', '.join(chosen)}. What each says comes at its end.",
        flush=True,
    )
    if left_out := ", ".join(name for name in SIDE_BY_SIDE if name not in chosen):
        print(f"Left out with SQLite alone, which is for a quick look: {left_out}. `make test` has all.", flush=True)
    run_lanes(lanes)
    run_lanes([alone])
    parts = [part for lane in (*lanes, alone) for part in lane]
    run_failed_again(parts)
    return sorted(parts, key=lambda part: databases.index(part.database))


def run_failed_again(parts: Sequence[Part]) -> None:
    """Run what failed once more, one part at a time; a part whose tests pass then has passed, with flaky tests."""
    for part in parts:
        if part.status != TESTS_FAILED or not (failed := part.failed()):
            continue
        again = part.failed_again()
        run_lanes([[again]])
        part.flaky = sorted(set(failed) - set(again.failed()))
        part.status = again.status


def run_with_options(databases: Sequence[str], options: Sequence[str]) -> list[Part]:
    """The tests that these options of pytest choose, one database after the other."""
    parts = [Part(database, "chosen", options) for database in databases]
    for part in parts:
        print(f"\n--- {part.database} ---", flush=True)
        run_lanes([[part]])
    return parts


def table(parts: Sequence[Part]) -> str:
    """Return a table with a line per part."""
    lines = ["", f"{'database':<10} {'part':<10} {'result':<8} {'seconds':>8}"]
    for part in parts:
        verdict = "passed" if part.status == 0 else f"exit {part.status}"
        line = f"{part.database:<10} {part.name:<10} {verdict:<8} {part.seconds:>8.1f}  {part.closing_line()}"
        lines.append(line.rstrip())
    flaky = [f"{part.database:<10} {name}" for part in parts for name in part.flaky]
    return "\n".join([*lines, *(["", "flaky (failed, then passed alone):", *flaky] if flaky else [])])


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments[0].split(",") if name] if arguments else []
    unknown = sorted(set(names) - set(KNOWN))
    if not names or unknown:
        print(f"Say which databases: a comma list of {', '.join(KNOWN)}.", file=sys.stderr)
        return 2
    catch_signals()
    os.chdir(ROOT)
    databases, options, began = in_order(names), arguments[1:], time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="ddt-suite-") as folder:
            parts = run_with_options(databases, options) if options else run_in_parts(databases, Path(folder))
            print(table(parts))
    except Interrupted as interrupted:
        return 128 + interrupted.signum
    used = os.times()
    cpu = used.children_user + used.children_system
    print(f"{time.monotonic() - began:.0f} seconds in all, {cpu:.0f} CPU seconds without the servers", flush=True)
    return 1 if any(part.status for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
