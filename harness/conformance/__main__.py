"""Runs the suites of the installed packages against this package's backend: ``python -m harness.conformance``."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from harness import ROOT
from harness.conformance.environments import interpreter_for, version_of
from harness.conformance.sources import BACKPORT, tests_of
from harness.conformance.suites import SUITES
from harness.servers.downloads import CannotBeHad


def main() -> int:
    """Run each suite on each database; the exit code is 1 if one fails, or if none was run."""
    parser = argparse.ArgumentParser(prog="python -m harness.conformance", description=__doc__)
    parser.add_argument("--databases", default="sqlite", help="such as sqlite,mariadb,postgres,mysql")
    parser.add_argument("--suites", default=",".join(SUITES), help="which of them (default: %(default)s)")
    parser.add_argument("--sources", type=Path, default=ROOT / ".conformance", help="the folder to download to")
    parser.add_argument("--clone", default=BACKPORT, help="the backport's repository, or a clone (%(default)s)")
    parser.add_argument(
        "--where-possible", action="store_true", help="do without a backport's suite whose sources cannot be downloaded"
    )
    parser.add_argument("patterns", nargs="*", help="parts of the names of the tests to run (default: all)")
    given = parser.parse_args()
    failed, ran, left_out = [], [], []
    for name in given.suites.split(","):
        suite = SUITES[name]
        try:
            python = interpreter_for(suite, given.sources)
            if python is None:
                print(f"{name}: {suite.framework} is not installed", flush=True)
                continue
            folder = tests_of(suite, version_of(suite.package, python), given.sources, given.clone)
        except CannotBeHad as error:
            if name == "core" or not given.where_possible:
                raise
            left_out.append(f"{name} ({error})")
            continue
        for database in given.databases.split(","):
            django = version_of("django", python)
            print(f"{name} on {database}: {suite.package}, {folder}, with Django {django}", flush=True)
            command = [python, "-m", "harness.conformance.run_suite", name, str(folder), *given.patterns]
            ran.append(name)
            if subprocess.run(command, cwd=ROOT, env={**os.environ, "DDT_DATABASE": database}, check=False).returncode:
                failed.append(f"{name} on {database}")
    print(*(f"LEFT OUT: {one}" for one in left_out), sep="\n")
    if not ran:
        failed.append("nothing was run")
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(dict.fromkeys(ran))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
