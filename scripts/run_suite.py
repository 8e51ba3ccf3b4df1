"""Run the tests once per database, one after another, and end with a table.

``python -m scripts.run_suite sqlite,mariadb,postgres [pytest options]``
"""

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.servers.commands import Interrupted, catch_signals, run_command

KNOWN = ("sqlite", "mariadb", "postgres", "mysql")
GRACE = 20.0  # seconds that pytest has to clean up when this process is interrupted


@dataclass(frozen=True)
class Result:
    """How the tests ended on one database."""

    database: str
    status: int
    seconds: float


def run(database: str, options: Sequence[str]) -> Result:
    """Run pytest on `database`."""
    print(f"\n--- {database} ---", flush=True)
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", *options]
    # SIGINT, since pytest cleans up after that one only.
    status = run_command(command, {"DDT_DATABASE": database}, pass_on=signal.SIGINT, grace=GRACE)
    return Result(database, status, time.monotonic() - started)


def in_order(names: Sequence[str]) -> list[str]:
    """SQLite first, since it needs no server and fails soonest; no name twice."""
    return sorted(dict.fromkeys(names), key=KNOWN.index)


def table(results: Sequence[Result]) -> str:
    """One line per database."""
    lines = ["", f"{'database':<10} {'result':<8} {'seconds':>8}"]
    for result in results:
        verdict = "passed" if result.status == 0 else f"exit {result.status}"
        lines.append(f"{result.database:<10} {verdict:<8} {result.seconds:>8.1f}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments[0].split(",") if name] if arguments else []
    unknown = sorted(set(names) - set(KNOWN))
    if not names or unknown:
        print(f"Say which databases: a comma list of {', '.join(KNOWN)}.", file=sys.stderr)
        return 2
    catch_signals()
    results: list[Result] = []
    try:
        for name in in_order(names):
            results.append(run(name, arguments[1:]))
    except Interrupted as interrupted:
        return 128 + interrupted.signum
    print(table(results), flush=True)
    return 1 if any(result.status for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
