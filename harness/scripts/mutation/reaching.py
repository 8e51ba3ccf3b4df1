"""Which test reaches which lines of the package: found by running all tests once, without a mutant."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from harness import ROOT
from harness.scripts.mutation.copies import Copy, each_on_a_copy
from harness.scripts.mutation.making import Mutant
from harness.scripts.mutation.places import PACKAGE, TESTS, WORK, digest, test_files

MIN_LIMIT = 60.0
"""Seconds that a test may take at least; a longer test may take ten times what it took."""
NAME = re.compile(r"\w{3,}")
PASSED, SOME_FAILED, NO_TESTS = 0, 1, 5
"""Exit codes of pytest after which all tests that were found have been run."""
PART = 8
"""Files of tests that one process of pytest runs to see what they reach."""


@dataclass
class Reach:
    """The tests that pass, what each takes in seconds, and who reaches a line."""

    seconds: dict[str, float] = field(default_factory=dict)
    tests_by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    failed: list[str] = field(default_factory=list)

    def add(self, event: Mapping[str, Any]) -> None:
        test = event["test"]
        if event["failed"]:
            self.failed.append(test)
            return
        self.seconds[test] = event["seconds"]
        for path, lines in event["lines"].items():
            for line in lines:
                self.tests_by_line[path, line].add(test)

    def limits(self, tests: Iterable[str]) -> dict[str, float]:
        """Return how many seconds each of the tests may take, in their order."""
        return {test: max(MIN_LIMIT, 10 * self.seconds[test]) for test in tests}

    def tests_of(self, mutant: Mutant, budget: float) -> list[str]:
        """Return the tests to run for a mutant while they take less than ``budget``: the quick and near ones first.

        They are the tests that reach the statement. If there are none, since it runs on import or in another process,
        they are those that reach its function, and for the executor all that start processes. If there are none either,
        they are all tests, and near are those that reach the file at all, or have the names that the change has.
        """
        tests = self._reaching(mutant.path, mutant.lines)
        fitness: Mapping[str, float] = {}
        of_file: set[str] = set()
        if not tests and mutant.body:
            tests = self._reaching(mutant.path, mutant.body)
            if mutant.path.startswith(f"{PACKAGE}/executor"):
                tests |= {test for test in self.seconds if test.startswith("tests/processes")}
        if not tests:
            tests, fitness, of_file = {*self.seconds}, named_in(mutant), self._reaching_file(mutant.path)
        places = {file: nearness(file, mutant.path) for file in {test.split("::")[0] for test in tests}}

        def order(test: str) -> tuple[float, str]:
            file = test.split("::")[0]
            fits = places[file] + 10 * fitness.get(file, 0) + 10 * (test in of_file)
            return self.seconds[test] / (1 + fits), test

        return list(self._within(sorted(tests, key=order), budget))

    def _reaching(self, path: str, lines: Iterable[int]) -> set[str]:
        return set().union(*(self.tests_by_line.get((path, line), ()) for line in lines))

    def _reaching_file(self, path: str) -> set[str]:
        return set().union(*(tests for place, tests in self.tests_by_line.items() if place[0] == path))

    def _within(self, tests: Iterable[str], budget: float) -> Iterator[str]:
        for test in tests:
            if budget <= 0:
                return
            budget -= self.seconds[test]
            yield test


def nearness(test: str, module: str) -> int:
    """Return how near a file of tests is to a module: 3 for each folder they share, and 10 for the same name."""
    folders, others = Path(test).parts[1:-1], Path(module).parts[1:-1]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(folders, others, strict=False))
    return 3 * len(list(shared)) + 10 * (Path(test).stem == f"test_{Path(module).stem}")


def named_in(mutant: Mutant) -> dict[str, float]:
    """Return how well the names in a change fit each file of tests: a name that is in few files counts for more."""
    names = {Path(mutant.path).stem, *NAME.findall(mutant.key.split(":")[1]), *NAME.findall(mutant.change)}
    fitness: defaultdict[str, float] = defaultdict(float)
    texts = {file: {*NAME.findall((ROOT / file).read_text())} for file in test_files(TESTS)}
    for name in names:
        files = [file for file, words in texts.items() if name in words]
        for file in files:
            fitness[file] += 1 / len(files)
    return fitness


def reach(copies: Sequence[Copy], tests: Iterable[str]) -> Reach:
    """Return who reaches what. Files of tests that have not changed since the last time are not run again."""
    package = digest(*sorted((ROOT / PACKAGE).rglob("*.py")))
    stamps = {file: f"{package} {digest(ROOT / file)}" for file in test_files(tests)}
    known = {entry["file"]: entry for entry in _entries(copies[0].database)}
    stale = [file for file, stamp in stamps.items() if file not in known or known[file]["stamp"] != stamp]
    parts = [stale[start : start + PART] for start in range(0, len(stale), PART)]
    for entry in each_on_a_copy(copies, parts, lambda copy, part: _run(copy, part, stamps)):
        known.update({one["file"]: one for one in entry})
    found = Reach()
    for file in stamps:
        for event in known[file]["events"]:
            found.add(event)
    return found


def _kept(database: str) -> Path:
    return WORK / f"reached-{database}.jsonl"


def _entries(database: str) -> Iterator[dict[str, Any]]:
    if _kept(database).exists():
        yield from (json.loads(line) for line in _kept(database).read_text().splitlines())


def _run(copy: Copy, files: Sequence[str], stamps: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run files of tests and keep what was seen. After a test that hangs, the files that did not run are run alone."""
    ran = copy.run(files, None, "--maxfail=1000", with_lines=True)
    events: dict[str, list[Mapping[str, Any]]] = {file: [] for file in files}
    for event in ran.events:
        if event["event"] == "ended":
            events[event["test"].split("::")[0]].append(event)
    is_whole = ran.code in (PASSED, SOME_FAILED, NO_TESTS) and any(event["event"] == "finished" for event in ran.events)
    ended = {file: seen for file, seen in events.items() if seen or is_whole}
    entries = [{"file": file, "stamp": stamps[file], "events": seen} for file, seen in ended.items()]
    with _kept(copy.database).open("a") as stream:
        stream.write("".join(json.dumps(entry) + "\n" for entry in entries))
    failed = [event["test"] for seen in events.values() for event in seen if event["failed"]]
    count = sum(len(seen) for seen in events.values())
    print(f"{count} tests of {files[0]} ...", f"Failed without any mutant: {failed}" if failed else "", flush=True)
    missing = [file for file in files if file not in ended]
    if missing and len(files) == 1:
        raise RuntimeError(f"no test of {files[0]} ended: {ran.output}")
    return entries + [entry for file in missing for entry in _run(copy, [file], stamps)]
