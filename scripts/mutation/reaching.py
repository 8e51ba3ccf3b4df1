"""Which test reaches which lines of the package: found by running all tests once, without a mutant."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.mutation.copies import Copy, each_on_a_copy
from scripts.mutation.making import Mutant
from scripts.mutation.places import PACKAGE, REACHED, ROOT, digest, test_files

LEAST_LIMIT = 60.0
"""Seconds that a test may take at least; a longer test may take ten times what it took."""
PASSED, SOME_FAILED, NO_TESTS = 0, 1, 5
"""Exit codes of pytest after which all tests that were found have been run."""
PART = 8
"""Files of tests that one process of pytest runs to see what they reach."""


@dataclass
class Reach:
    """The tests that pass, what each takes in seconds, how many lines it reaches, and who reaches a line."""

    seconds: dict[str, float] = field(default_factory=dict)
    breadth: dict[str, int] = field(default_factory=dict)
    tests_by_line: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    failed: list[str] = field(default_factory=list)

    def add(self, event: Mapping[str, Any]) -> None:
        test = event["test"]
        if event["failed"]:
            self.failed.append(test)
            return
        self.seconds[test] = event["seconds"]
        self.breadth[test] = sum(len(lines) for lines in event["lines"].values())
        for path, lines in event["lines"].items():
            for line in lines:
                self.tests_by_line[path, line].add(test)

    def limits(self, tests: Iterable[str]) -> dict[str, float]:
        """Return how many seconds each of the tests may take, in their order."""
        return {test: max(LEAST_LIMIT, 10 * self.seconds[test]) for test in tests}

    def tests_of(self, mutant: Mutant, budget: float) -> list[str]:
        """Return the tests to run for a mutant, the most special ones first, while they take less than ``budget``.

        Those that reach the statement; if there are none (it runs on import, or in another process), those that reach
        its function, or its file, and all that start processes.
        """
        tests = self._reaching(mutant.path, mutant.lines)
        if not tests:
            file = range(1, len(mutant.source.splitlines()) + 1)
            tests = self._reaching(mutant.path, mutant.body) or self._reaching(mutant.path, file) or set(self.seconds)
            tests |= {test for test in self.seconds if test.startswith("tests/processes")}
        folder = mutant.path.removeprefix(PACKAGE).split("/")[1]
        near = sorted(tests, key=lambda test: (f"/{folder}/" not in test, self.breadth[test], test))
        return list(self._within(near, budget))

    def _reaching(self, path: str, lines: Iterable[int]) -> set[str]:
        return set().union(*(self.tests_by_line.get((path, line), ()) for line in lines))

    def _within(self, tests: Iterable[str], budget: float) -> Iterator[str]:
        for test in tests:
            if budget <= 0:
                return
            budget -= self.seconds[test]
            yield test


def reach(copies: Sequence[Copy]) -> Reach:
    """Return who reaches what. Files of tests that have not changed since the last time are not run again."""
    package = digest(*sorted((ROOT / PACKAGE).rglob("*.py")))
    stamps = {file: f"{package} {digest(ROOT / file)}" for file in test_files()}
    known = {entry["file"]: entry for entry in _entries()}
    stale = [file for file, stamp in stamps.items() if file not in known or known[file]["stamp"] != stamp]
    parts = [stale[start : start + PART] for start in range(0, len(stale), PART)]
    for entry in each_on_a_copy(copies, parts, lambda copy, part: _run(copy, part, stamps)):
        known.update({one["file"]: one for one in entry})
    found = Reach()
    for file in stamps:
        for event in known[file]["events"]:
            found.add(event)
    return found


def _entries() -> Iterator[dict[str, Any]]:
    if REACHED.exists():
        yield from (json.loads(line) for line in REACHED.read_text().splitlines())


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
    with REACHED.open("a") as stream:
        stream.write("".join(json.dumps(entry) + "\n" for entry in entries))
    failed = [event["test"] for seen in events.values() for event in seen if event["failed"]]
    count = sum(len(seen) for seen in events.values())
    print(f"{count} tests of {files[0]} ...", f"Failed without any mutant: {failed}" if failed else "", flush=True)
    missing = [file for file in files if file not in ended]
    if missing and len(files) == 1:
        raise RuntimeError(f"no test of {files[0]} ended: {ran.output}")
    return entries + [entry for file in missing for entry in _run(copy, [file], stamps)]
