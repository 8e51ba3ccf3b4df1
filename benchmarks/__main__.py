"""Drain due no-op tasks, lean pipeline and product in turns on one server; medians and their ratio."""

import argparse
import os
import statistics
import subprocess
import sys

WAYS = ("lean", "product")


def main() -> int:
    """Start the servers (unless their URLs are in the environment) and measure on each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--databases", default="mariadb,postgres", help="of mariadb, postgres, mysql")
    parser.add_argument("--tasks", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    databases = options.databases.split(",")
    if not all(f"DATABASE_URL_{database.upper()}" in os.environ for database in databases):
        servers = [sys.executable, "-m", "tests.servers", "--databases", options.databases]
        return subprocess.call([*servers, "--", sys.executable, "-m", "benchmarks", *sys.argv[1:]])
    print(f"{options.tasks:,} due tasks, one process, history on, median of {options.repeats} (lowest to highest)")
    for database in databases:
        compare(database, options.tasks, options.repeats)
    return 0


def compare(database: str, tasks: int, repeats: int) -> None:
    """Both ways in turns, so that a noisy minute hits both."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            rates[way].append(measure(database, way, tasks))
    lean, product = (statistics.median(rates[way]) for way in WAYS)
    for way in WAYS:
        spread = f"{min(rates[way]):,.0f} to {max(rates[way]):,.0f}"
        print(f"{database:9} {way:8} {statistics.median(rates[way]):>8,.0f} tasks/s  ({spread})")
    print(f"{database:9} {'ratio':8} {product / lean:>8.2f}", flush=True)


def measure(database: str, way: str, tasks: int) -> float:
    """Tasks per second of one process."""
    environment = {**os.environ, "BENCH_DATABASE": database, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
    command = [sys.executable, "-m", "benchmarks.drain", way, str(tasks)]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=600, text=True)
    return float(answer.stdout)


if __name__ == "__main__":
    sys.exit(main())
