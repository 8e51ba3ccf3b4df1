"""Change the code in small ways, one at a time, and count the changes that no test notices.

``python -m harness.scripts.mutation [--sample N] [folder ...]``. The sample has N mutants of each folder, the same ones
each time, and a larger sample contains a smaller one. The tests run on SQLite, in copies of the repository under
``mutants/``, where verdicts are kept as well: an interrupted run continues where it ended. ``--database mariadb``
then tries the mutants that survived on that server (DATABASE_URL_MARIADB has its address).
"""

import argparse
import hashlib
import os
import shlex
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from harness import ROOT
from harness.scripts.mutation.copies import Copy, each_on_a_copy
from harness.scripts.mutation.making import Mutant, keys_of, make
from harness.scripts.mutation.places import PACKAGE, SCORED, TESTS, WORK, scored_files
from harness.scripts.mutation.reaching import reach
from harness.scripts.mutation.scoring import tables
from harness.scripts.mutation.trying import NO_ANSWER, SURVIVED, Trial, Verdict, keep, known_verdicts


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m harness.scripts.mutation", description="Count changes that no test notices."
    )
    parser.add_argument("--sample", type=int, default=60, help="mutants of each folder (default: 60)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of tests for each mutant (default: 60)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="tests at a time (default: cores)")
    parser.add_argument("--prefix", type=shlex.split, default=[], help='put before each command, as in "nice -n 5"')
    parser.add_argument("--database", default="sqlite", help="try on this server what survives on SQLite")
    parser.add_argument("--list", action="store_true", help="run nothing, print the verdicts that there are")
    parser.add_argument("--only", nargs="*", default=[], metavar="KEY", help="these mutants, and no sample")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH", help="run these tests only")
    parser.add_argument("folders", nargs="*", default=SCORED, help=f"of {', '.join(SCORED)} (default: all)")
    return parser.parse_args(arguments)


def sample_of(keys: Collection[str], size: int) -> list[str]:
    """Return ``size`` of the keys, spread evenly, and the same ones each time."""
    return sorted(keys, key=place_in_sample)[:size]


def place_in_sample(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def made(keys: Collection[str]) -> Iterator[Mutant]:
    """Yield the mutants of these keys. One that is the same program as the original is none."""
    files: defaultdict[Path, set[str]] = defaultdict(set)
    for key in keys:
        files[ROOT / PACKAGE / key.split(":")[0]].add(key)
    for file, wanted in files.items():
        yield from make(file, wanted)


def try_all(mutants: Sequence[Mutant], known: Mapping[str, Verdict], options: argparse.Namespace) -> None:
    """Have a verdict on each of the mutants, and keep it."""
    WORK.mkdir(exist_ok=True)
    copies = [
        Copy(f"{options.database}-{number}", options.prefix, options.database) for number in range(options.workers)
    ]
    trial = Trial(reach(copies, options.tests), options.seconds)
    by_key = {mutant.key: mutant for mutant in mutants}
    for done, verdict in enumerate(each_on_a_copy(copies, mutants, trial.verdict), 1):
        before = known.get(verdict.key)
        tried = verdict if before is None else verdict._replace(databases=f"{before.databases},{verdict.databases}")
        if before is None or verdict.outcome != NO_ANSWER:
            keep(tried, by_key[verdict.key])
        print(f"{done}/{len(mutants)} {verdict.outcome}: {verdict.key} {verdict.by[:200]}", flush=True)


def is_waiting(known: Verdict | None, database: str) -> bool:
    """Return whether a mutant is to be tried on a database: a server is for those that survive on SQLite."""
    if known is None:
        return database == "sqlite"
    return known.outcome == SURVIVED and database not in known.databases.split(",")


def verdicts_of(keys: Mapping[str, Sequence[str]], budget: float) -> dict[str, list[Verdict]]:
    known = known_verdicts(budget)
    return {unit: [known[key] for key in chosen if key in known] for unit, chosen in keys.items()}


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    keys = {unit: [key for file in scored_files(unit) for key in keys_of(file)] for unit in options.folders}
    chosen = {unit: sample_of(all_, options.sample) for unit, all_ in keys.items()}
    if options.only:
        chosen = {unit: [key for key in all_ if key in options.only] for unit, all_ in keys.items()}
    known = known_verdicts(options.seconds)
    mutants = made({key for some in chosen.values() for key in some if is_waiting(known.get(key), options.database)})
    waiting = sorted(mutants, key=lambda mutant: place_in_sample(mutant.key))
    if waiting and not options.list:
        try_all(waiting, known, options)
    totals = {unit: len(all_) for unit, all_ in keys.items()}
    print("\n".join(tables(totals, verdicts_of(chosen, options.seconds))))
    if not any(chosen.values()):
        print("no change was chosen, so nothing was tried", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
