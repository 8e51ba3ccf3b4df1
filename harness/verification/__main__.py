"""``python -m harness.verification``: every size of the model holds, every bug put in is found. 0 if so, else 1."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from harness.servers.processes import ServerError
from harness.verification.mutants import MUTANTS, REDUNDANT, Mutant
from harness.verification.programs import provide
from harness.verification.sizes import FULL, LanesSize, Size
from harness.verification.spin import PROMISES, SpinError, Verdict, search

AT_ONCE = 2
"""The number of searches in parallel: each takes a core and some 300 MB."""


class Result(NamedTuple):
    """One line of the report, and whether it is as it has to be."""

    text: str
    is_well: bool
    details: tuple[str, ...] = ()


def main() -> int:
    try:
        provide()
        return _verify()
    except (SpinError, ServerError) as error:
        print(error, file=sys.stderr)
        return 1


def _verify() -> int:
    print(f"Every state of the model, of which is asserted: {'; '.join(PROMISES.values())}.", flush=True)
    results = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for result in pool.map(lambda work: work(), _works()):
            results.append(result)
            print(f"  {'ok  ' if result.is_well else 'FAIL'} {result.text}", flush=True)
            for line in result.details:
                print(f"         {line}")
    failed = sum(not result.is_well for result in results)
    print(f"{len(results) - failed} of {len(results)} searches came out as they have to.")
    return 1 if failed else 0


def _works() -> Iterator[Callable[[], Result]]:
    for name, size in FULL.items():
        yield lambda name=name, size=size: holds(name, size)  # type: ignore[misc]
    yield lambda: is_redundant(REDUNDANT)
    for mutant in MUTANTS:
        yield lambda mutant=mutant: is_found(mutant)  # type: ignore[misc]


def holds(name: str, size: Size | LanesSize) -> Result:
    """Check that nothing is broken, and that the search has executed every statement of the model."""
    verdict = search(size)
    text = f"{name} ({size}): {_figures(verdict)}"
    if not verdict.holds:
        return Result(f"{text}; broken: {verdict.violated}", False, verdict.trail)
    return Result(text, not verdict.unreached, tuple(f"never executed: {line}" for line in verdict.unreached))


def is_redundant(mutant: Mutant) -> Result:
    """Check that nothing is broken without this part of the model."""
    verdict = search(mutant.size, [mutant.macro])
    return Result(f"holds also when {mutant.what}: {_figures(verdict)}", verdict.holds, verdict.trail)


def is_found(mutant: Mutant) -> Result:
    """Check that something is broken without this part of the model."""
    verdict = search(mutant.size, [mutant.macro], shortest=True)
    if verdict.holds:
        return Result(f"bug NOT found: {mutant.what} ({_figures(verdict)})", False)
    text = f"bug found: {mutant.what}; a counterexample of {len(verdict.trail)} events ({verdict.depth} steps of spin):"
    return Result(text, True, (*verdict.trail, f"=> broken: {verdict.violated}"))


def _figures(verdict: Verdict) -> str:
    return f"{verdict.states:,} states, depth {verdict.depth}, {verdict.seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
