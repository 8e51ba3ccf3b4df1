"""Change the code in small ways, one at a time, and count the changes that no test notices.

``python -m harness.scripts.mutants [--sample N] [folder ...]``. mutmut makes the changes and runs the tests, on SQLite.
The sample has N mutants of each folder: the same ones each time, and a larger sample contains a smaller one. Results
stay in ``mutants/`` while neither the function nor its tests change, so an interrupted run continues where it ended.
Prints a table and the mutants that survived; ``python -m mutmut show NAME`` shows one.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mutmut.stats import status_by_exit_code

from harness import ROOT

RESULTS = ROOT / "mutants" / "django_delayed_tasks"
FOLDERS = ("store", "executor", "leases", "triggers")
NOTICED = ("killed", "timeout", "segfault", "caught by type check")
UNNOTICED = ("survived", "no tests")
MUTMUT = (sys.executable, "-m", "mutmut")


def results_of(folder: str) -> dict[str, str]:
    """The mutants of a folder of the package and what became of each: mutmut's words, "not checked" if nothing did."""
    found: dict[str, str] = {}
    for path in sorted((RESULTS / folder).rglob("*.meta")):
        codes: Mapping[str, int | None] = json.loads(path.read_text())["exit_code_by_key"]
        found.update({name: status_of(code) for name, code in codes.items()})
    return found


def status_of(code: int | None) -> str:
    """Return mutmut's word for an exit code; 255 may mean that the tests did not start, and counts as no answer."""
    return "no answer" if code == 255 else status_by_exit_code[code]


def sample_of(names: Sequence[str], size: int) -> list[str]:
    """As many of the names as `size` says, spread evenly, and the same ones each time."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:size]


def run(names: Sequence[str]) -> None:
    """Have mutmut test these mutants, those that have a result excepted."""
    subprocess.run([*MUTMUT, "run", *names], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


def lines_of(folder: str, results: Mapping[str, str]) -> Iterator[str]:
    """A line of the table, then the mutants that no test noticed."""
    counts = Counter(results.values())
    noticed = sum(counts[status] for status in NOTICED)
    unnoticed = [name for name, status in results.items() if status in UNNOTICED]
    score = f"{noticed / (noticed + len(unnoticed)):.0%}" if noticed or unnoticed else "–"
    yield f"{folder:<10} {len(results):>6} {noticed:>8} {len(unnoticed):>9} {score:>6}  {dict(counts)}"
    yield from (f"    {name}" for name in unnoticed)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m harness.scripts.mutants", description="Count changes that no test notices."
    )
    parser.add_argument("--sample", type=int, default=150, help="mutants of each folder (default: 150)")
    parser.add_argument("--list", action="store_true", help="run nothing, print the results that there are")
    parser.add_argument("folders", nargs="*", default=FOLDERS, help=f"of {', '.join(FOLDERS)} (default: all)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if not RESULTS.exists():
        run(["django_delayed_tasks.triggers.once*"])  # makes all mutants, and notes which tests reach which function
    chosen = {folder: sample_of(list(results_of(folder)), options.sample) for folder in options.folders}
    waiting = [name for folder, names in chosen.items() for name in names if results_of(folder)[name] == "not checked"]
    if waiting and not options.list:
        run(waiting)
    print(f"\n{'folder':<10} {'tried':>6} {'noticed':>8} {'unnoticed':>9} {'score':>6}")
    for folder, names in chosen.items():
        results = results_of(folder)
        print("\n".join(lines_of(folder, {name: results[name] for name in names})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
