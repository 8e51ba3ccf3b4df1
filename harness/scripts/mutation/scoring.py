"""The score of each folder, and the words on survivors that a person has looked at (judged.toml)."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import sqrt

from harness.scripts.mutation.places import JUDGED
from harness.scripts.mutation.trying import NO_ANSWER, NOTICED, SURVIVED, Verdict

EQUIVALENT, SERVERS = "equivalent", "servers"
COLUMNS = (
    "folder", "mutants", "tried", "noticed on SQLite", "on a server", "equivalent", "survived", "no answer", "score",
    "95 % interval",
)  # fmt: skip


@cache
def judged() -> dict[str, tuple[str, str]]:
    """Return the kind of each survivor that a person judged ("equivalent", "servers", "time only", "hole"), and why."""
    entries = tomllib.loads(JUDGED.read_text()) if JUDGED.exists() else {}
    return {key: (entry["kind"], entry["why"]) for key, entry in entries.items()}


def row(unit: str, total: int, verdicts: Sequence[Verdict]) -> str:
    """Return the line of a folder: the score is what is noticed of what is not equivalent."""
    kinds = Counter(_kind(verdict) for verdict in verdicts)
    noticed = kinds[NOTICED] + kinds[SERVERS]
    size = noticed + kinds[SURVIVED]
    low, high = interval(noticed, size, total)
    score = f"{noticed / size:.0%}" if size else "–"
    counts = (total, len(verdicts), *(kinds[kind] for kind in (NOTICED, SERVERS, EQUIVALENT, SURVIVED, NO_ANSWER)))
    return line((unit.removesuffix(".py"), *map(str, counts), score, f"{low:.0%} to {high:.0%}"))


def _kind(verdict: Verdict) -> str:
    if verdict.outcome == NOTICED:
        return NOTICED if verdict.databases == "sqlite" else SERVERS
    kind = judged().get(verdict.key, ("",))[0]
    return kind if verdict.outcome == SURVIVED and kind in (EQUIVALENT, SERVERS) else verdict.outcome


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
    yield line(COLUMNS)
    yield line("---" for _ in COLUMNS)
    yield from (row(unit, totals[unit], one) for unit, one in verdicts.items())
