"""The score of each folder, and the words on survivors that a person has looked at (judged.toml)."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from harness.scripts.mutation.places import JUDGED
from harness.scripts.mutation.trying import NO_ANSWER, NOTICED, SURVIVED, Verdict

EQUIVALENT = "equivalent"
HEAD = "| folder | mutants | tried | noticed | equivalent | survived | no answer | score | 95 % interval |"
RULE = "|---|---:|---:|---:|---:|---:|---:|---:|---|"


def judged() -> dict[str, tuple[str, str]]:
    """Return the kind ("equivalent", "time only", "hole") and the words of each survivor that a person judged."""
    entries = tomllib.loads(JUDGED.read_text()) if JUDGED.exists() else {}
    return {key: (entry["kind"], entry["why"]) for key, entry in entries.items()}


def row(unit: str, total: int, verdicts: Sequence[Verdict]) -> str:
    """Return the line of a folder: the score is what is noticed of what is not equivalent."""
    words = judged()
    noticed = sum(verdict.outcome == NOTICED for verdict in verdicts)
    survivors = [verdict for verdict in verdicts if verdict.outcome == SURVIVED]
    equivalent = sum(words.get(verdict.key, ("",))[0] == EQUIVALENT for verdict in survivors)
    unknown = sum(verdict.outcome == NO_ANSWER for verdict in verdicts)
    survived = len(survivors) - equivalent
    low, high = interval(noticed, noticed + survived, total)
    score = f"{noticed / (noticed + survived):.0%}" if noticed + survived else "–"
    return (
        f"| {unit.removesuffix('.py')} | {total} | {len(verdicts)} | {noticed} | {equivalent} | {survived} | {unknown} "
        f"| {score} | {low:.0%}–{high:.0%} |"
    )


def interval(hits: int, size: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, with the correction for a sample from so few as ``total``."""
    if not size or size >= total:
        return (hits / size, hits / size) if size else (0.0, 1.0)
    z = 1.96 * sqrt((total - size) / (total - 1))
    share, spread = hits / size, z * z / size
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / size + spread / size / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def survivors(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a few lines on each mutant that was not noticed."""
    words = judged()
    for verdict in verdicts:
        if verdict.outcome != NOTICED:
            kind, why = words.get(verdict.key, ("not judged", verdict.by))
            yield f"{verdict.key} ({verdict.outcome} of {verdict.tests} tests; {kind}: {why})\n{verdict.change}\n"


def tables(totals: Mapping[str, int], verdicts: Mapping[str, Sequence[Verdict]]) -> Iterator[str]:
    for one in verdicts.values():
        yield from survivors(one)
    yield from (HEAD, RULE)
    yield from (row(unit, totals[unit], one) for unit, one in verdicts.items())
