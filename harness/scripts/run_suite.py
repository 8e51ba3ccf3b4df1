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

# Tests that measure the work of a whole server, or change its settings: nothing else may use it at the same time.
ALONE = (
    "tests/leases/test_contention.py",
    "tests/store/claiming/test_old_snapshots.py",
    "tests/recurring/test_once_cost.py",
    "tests/executor/settling/test_settler.py",
)
OUTAGES = tuple(f"tests/processes/test_{name}.py" for name in ("killed", "notified", "outage"))
SOURCES = ("tests/test_layers.py", "tests/test_typing.py")
# What each part of the suite runs.
PARTS: dict[str, tuple[str, ...]] = {
    "faults": ("tests/harness/torture", "tests/galera", *OUTAGES),
    "commands": ("tests/harness/commands", "tests/test_docs_followed.py"),
    "processes": ("tests/processes",),
    "examples": ("tests/examples",),
    "leases": ("tests/leases",),
    "pages": ("tests/admin", "tests/shop", "tests/fuzz"),
    "races": ("tests/races", "tests/recurring"),
    "executor": ("tests/executor",),
    # Tests that do not depend on the database: of sources, of scripts, and with programs and packages from outside.
    "once": ("tests/outside", "tests/harness/scripts", "tests/triggers", *SOURCES),
    "store": ("tests/store", "tests/api", "tests/charsets"),
    "all else": ("tests",),
}
# How long each takes on one database, about, in seconds: only the order in which they start depends on it.
SECONDS = {
    "faults": 190, "commands": 160, "processes": 130, "examples": 40, "leases": 150, "pages": 110, "races": 120,
    "executor": 100, "once": 350, "store": 110, "all else": 60,
}  # fmt: skip
AT_ONCE = 6
"""Parts that run at the same time, on two cores: many tests wait more than they compute."""

# What a page or a process asks of MySQL is the same as of MariaDB, down to the dialect; what goes wrong there is not.
ALIKE = {("mysql", name): "mariadb" for name in ("pages", "processes", "examples")}
# What a command does is the same on every database: of those that need a server, on MariaDB.
ONLY_ON = {"commands": ("sqlite", "mariadb")}
# With SQLite alone a developer waits for the answer.
NOT_QUICK = ("faults", "commands")


def options_of(name: str) -> list[str]:
    """What pytest is told to run for this part: its paths, and what of them is of other parts."""
    others = [*ALONE, *(path for other in PARTS if other != name for path in PARTS[other])]
    within = [path for path in others if any(path.startswith(f"{own}/") for own in PARTS[name])]
    return [*PARTS[name], *(f"--ignore={path}" for path in within)]


def is_covered(database: str, name: str, databases: Sequence[str]) -> bool:
    """Return whether this part also runs on a database that is the same to it."""
    if name == "once":
        return database != databases[0]
    return ALIKE.get((database, name)) in databases or database not in ONLY_ON.get(name, KNOWN)


@dataclass
class Part:
    """The tests that `options` choose, on one database; `folder` keeps what they print, else the terminal shows it."""

    database: str
    name: str
    options: Sequence[str]
    folder: Path | None = None
    seconds: float = 0.0
    cpu: float = 0.0
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
        before = cpu_of_children()
        self.status = status_of(process)
        self.cpu = cpu_of_children() - before
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


def cpu_of_children() -> float:
    """CPU seconds of the child processes that have ended so far, with theirs."""
    used = os.times()
    return used.children_user + used.children_system


def has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether it has, and leave it to be waited for: what it used is counted then."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def run_lanes(lanes: Sequence[Sequence[Part]], at_once: int = AT_ONCE) -> None:
    """Run ``at_once`` lanes at a time, and the parts of a lane one after the other.

    When a part has ended, the lane whose remaining parts take the longest continues.
    """
    waiting = [list(lane) for lane in lanes]
    running: dict[int, tuple[Part, subprocess.Popen[bytes]]] = {}
    try:
        while running or any(waiting):
            free = [number for number, lane in enumerate(waiting) if lane and number not in running]
            free.sort(key=lambda number: -sum(SECONDS.get(part.name, 0) for part in waiting[number]))
            for number in free[: at_once - len(running)]:
                part = waiting[number].pop(0)
                running[number] = part, part.start()
            time.sleep(LOOK_EVERY)
            for number, (part, process) in list(running.items()):
                if has_ended(process):
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


def run_in_parts(databases: Sequence[str], folder: Path) -> list[Part]:
    """Run the parts in as little time as possible; return them by database. `folder` is for their output."""

    def parts_of(name: str, options: Sequence[str]) -> list[Part]:
        chosen = [database for database in databases if not is_covered(database, name, databases)]
        return [Part(database, name, options, folder / f"{database}-{name}") for database in chosen]

    chosen = [name for name in PARTS if name not in NOT_QUICK or databases != ["sqlite"]]
    lanes = [parts_of(name, options_of(name)) for name in chosen]
    alone = parts_of("alone", ALONE)
    print(f"On {', '.join(databases)}: {', '.join(chosen)}. What each says comes at its end.", flush=True)
    if left_out := ", ".join(name for name in PARTS if name not in chosen):
        print(f"Left out with SQLite alone, which is for a quick look: {left_out}. `make test` has all.", flush=True)
    run_lanes(lanes)
    run_lanes([[part] for part in alone])
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
    lines = ["", f"{'database':<10} {'part':<10} {'result':<8} {'seconds':>8} {'CPU':>8}"]
    for part in parts:
        verdict = "passed" if part.status == 0 else f"exit {part.status}"
        line = f"{part.database:<10} {part.name:<10} {verdict:<8} {part.seconds:>8.1f} {part.cpu:>8.1f}"
        lines.append(f"{line}  {part.closing_line()}".rstrip())
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
    cpu = cpu_of_children()
    print(f"{time.monotonic() - began:.0f} seconds in all, {cpu:.0f} CPU seconds without the servers", flush=True)
    return 1 if any(part.status for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
