"""``python -m harness.benchmarks [CASE …]``: measure, print the tables, write the figures."""

import argparse
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from harness.benchmarks import cases, report
from harness.benchmarks.bench import Bench
from harness.benchmarks.publish import publish

KNOWN = ("sqlite", "mariadb", "postgres", "mysql")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return what to measure."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.benchmarks", description="How fast it is, as ratios in one run."
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(cases.NAMES)} (all)")
    parser.add_argument("--databases", default=",".join(KNOWN), help=f"a comma list of {', '.join(KNOWN)}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size: rough figures, soon")
    parser.add_argument("--smallest", action="store_true", help="each case at its smallest: to see that it runs")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), help="where the figures go")
    parser.add_argument("--publish", action="store_true", help="write tables and plots for the documentation too")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.cases) - set(cases.NAMES)):
        parser.error(f"unknown case {', '.join(unknown)}: known are {', '.join(cases.NAMES)}")
    if unknown := sorted(set(options.databases.split(",")) - set(KNOWN)):
        parser.error(f"unknown database {', '.join(unknown)}: known are {', '.join(KNOWN)}")
    if options.publish and not find_spec("matplotlib"):
        parser.error("--publish draws plots with matplotlib: install the extra 'bench'")
    return options


def main(arguments: list[str]) -> int:
    """Start the servers, unless their URLs are in the environment, and measure on each."""
    options = parse(arguments)
    databases = tuple(sorted(options.databases.split(","), key=KNOWN.index))
    servers = [database for database in databases if database != "sqlite"]
    if not all(f"DATABASE_URL_{database.upper()}" in os.environ for database in servers):
        command = [sys.executable, "-m", "harness.servers", "--databases", ",".join(servers)]
        return subprocess.call([*command, "--", sys.executable, "-m", "harness.benchmarks", *arguments])
    bench = Bench(databases, options.repeats, options.quick or options.smallest, options.smallest)
    names = options.cases or [name for name in cases.NAMES if name not in cases.LARGE or not options.smallest]
    about = about_run(options, bench)
    for name in names:
        bench.case = name
        cases.case_of(name).measure(bench)
        bench.figures.write(options.json, about)
    print("\n" + report.figures_table(bench.figures))
    print("\n" + report.goals_table([goal for name in names for goal in cases.case_of(name).GOALS], bench.figures))
    if options.publish:
        publish(bench.figures, about)
    if not bench.figures.values:
        print(f"nothing was measured: on {options.databases}, {', '.join(names)} has no figure", file=sys.stderr)
        return 1
    return 0


def about_run(options: argparse.Namespace, bench: Bench) -> dict[str, object]:
    """Return where and how the figures were measured."""
    import django

    return {
        "python": platform.python_version(),
        "django": django.__version__,
        "databases": [bench.run("versions", database=database) for database in bench.databases],
        "processors": os.cpu_count(),
        "quick": bench.quick,
        "repeats": [options.repeats],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
