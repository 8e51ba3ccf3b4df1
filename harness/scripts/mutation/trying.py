"""The verdict on one mutant. What a broken run says is no verdict: each test that fails is tried alone, twice."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from harness import ROOT
from harness.scripts.mutation.copies import Copy, Ran
from harness.scripts.mutation.making import Mutant
from harness.scripts.mutation.places import TESTS, VERDICTS, digest, test_files
from harness.scripts.mutation.reaching import Reach

NOTICED, SURVIVED, NO_ANSWER = "noticed", "survived", "no answer"
MAX_TRIES = 3
"""Tests that fail once, and pass when they are tried alone, before there is no answer."""
FIRST = 30
"""Tests that are run before the others."""


class Verdict(NamedTuple):
    """What became of a mutant: ``by`` is the test that noticed it, ``tests`` the number that were picked for it.

    ``databases`` has the names of those it was tried on, the last one being where it was noticed.
    """

    key: str
    outcome: str
    by: str
    tests: int
    budget: float
    change: str
    databases: str = "sqlite"


class Trial:
    """Tries mutants. ``reach`` has the tests that pass without a mutant, ``budget`` the seconds of tests for each."""

    def __init__(self, reach: Reach, budget: float) -> None:
        self._reach = reach
        self._budget = budget
        self._is_fine: dict[tuple[str, ...], bool] = {}

    def verdict(self, copy: Copy, mutant: Mutant) -> Verdict:
        """Run the tests that reach a mutant until one fails, in a copy that has the mutant meanwhile."""
        tests = self._reach.tests_of(mutant, self._budget)
        outcome, by = self._outcome(copy, mutant, list(tests)) if tests else (SURVIVED, "")
        return Verdict(mutant.key, outcome, by, len(tests), self._budget, mutant.change, copy.database)

    def _outcome(self, copy: Copy, mutant: Mutant, tests: list[str]) -> tuple[str, str]:
        reason = ""
        for _ in range(MAX_TRIES):
            ran = self._run_in_stages(copy, mutant, tests)
            failed = failed_test(ran)
            if ran.code == 0:
                return SURVIVED, ""
            if failed is None:
                return self._without_tests(copy, mutant, tests, ran)
            if failed_test(self._run_mutated(copy, mutant, [failed])) == failed and self._passes(copy, [failed]):
                return NOTICED, failed
            tests.remove(failed)
            reason = f"{failed} failed, and not for the mutant"
        return NO_ANSWER, reason

    def _run_in_stages(self, copy: Copy, mutant: Mutant, tests: Sequence[str]) -> Ran:
        """Run a few of the tests, and the others if those pass: loading all files takes longer than most tests."""
        ran = self._run_mutated(copy, mutant, tests[:FIRST])
        return ran if ran.code != 0 or len(tests) <= FIRST else self._run_mutated(copy, mutant, tests[FIRST:])

    def _without_tests(self, copy: Copy, mutant: Mutant, tests: list[str], ran: Ran) -> tuple[str, str]:
        """Return the outcome when no test began: noticed if none begins again, and they do without the mutant."""
        broken = [event["where"] for event in ran.events if event["event"] == "not collected"]
        some = [test for test in tests if test.split("::")[0] in broken][:1] or tests[:FIRST]
        if breaks(ran) and breaks(self._run_mutated(copy, mutant, some)) and self._passes(copy, some):
            return NOTICED, "the import"
        return NO_ANSWER, f"exit code {ran.code}: {ran.output[-300:]}"

    def _run_mutated(self, copy: Copy, mutant: Mutant, tests: Sequence[str]) -> Ran:
        copy.write(mutant.path, mutant.source)
        try:
            return self._run(copy, tests)
        finally:
            copy.restore(mutant.path)

    def _passes(self, copy: Copy, tests: Sequence[str]) -> bool:
        """Return whether these tests pass without a mutant, run in the same way."""
        if tuple(tests) not in self._is_fine:
            self._is_fine[tuple(tests)] = self._run(copy, tests).code == 0
        return self._is_fine[tuple(tests)]

    def _run(self, copy: Copy, tests: Sequence[str]) -> Ran:
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        return copy.run(files, self._reach.limits(tests))


def breaks(ran: Ran) -> bool:
    """Return whether the run failed before any test began."""
    return ran.code != 0 and not any(event["event"] == "begins" for event in ran.events)


def failed_test(ran: Ran) -> str | None:
    """Return the test that failed, or that had begun when the process ended: it hung, or the process broke in it."""
    begun = None
    for event in ran.events:
        if event["event"] == "begins":
            begun = event["test"]
        elif event["event"] == "ended":
            if event["failed"]:
                return str(event["test"])
            begun = None
    return begun


def known_verdicts(budget: float) -> dict[str, Verdict]:
    """Return the verdicts that still hold: of files that did not change and, of survivors, with the same tests."""
    tests = digest(*(ROOT / file for file in test_files(TESTS)))
    found = {}
    for entry in _entries():
        verdict, file = Verdict(*entry["verdict"]), ROOT / entry["path"]
        fresh = file.exists() and digest(file) == entry["file"]
        if verdict.outcome == SURVIVED:
            fresh &= entry["tests"] == tests and verdict.budget >= budget
        if fresh and verdict.outcome != NO_ANSWER:
            found[verdict.key] = verdict
        else:
            found.pop(verdict.key, None)
    return found


def keep(verdict: Verdict, mutant: Mutant) -> None:
    tests = digest(*(ROOT / file for file in test_files(TESTS)))
    entry = {"verdict": verdict, "path": mutant.path, "file": digest(ROOT / mutant.path), "tests": tests}
    with VERDICTS.open("a") as stream:
        stream.write(json.dumps(entry) + "\n")


def _entries() -> Iterator[dict[str, Any]]:
    if VERDICTS.exists():
        yield from (json.loads(line) for line in VERDICTS.read_text().splitlines())
