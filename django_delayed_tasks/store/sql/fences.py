"""The check that every write which follows from a claim carries: this row, in this version."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

Claim = tuple[int, int]
"""(task id, version): names one claim; a version never comes back."""

LAST_VERSION = 2**63 - 1
"""There is none after it. Only a row that was written by other means has it; it stays as it is."""


def fence(claims: Iterable[Claim], prefix: str = "") -> str:
    """A condition that holds for the rows of these claims (of none, if there are none) while their version is the same.

    Ids are grouped by version (most tasks of a batch have the same), so that every database reads them as a range of
    the primary key. Integers are written into the text: they are ours, and hundreds of parameters are slow.
    """
    versions: defaultdict[int, list[int]] = defaultdict(list)
    for task_id, version in claims:
        versions[int(version)].append(int(task_id))
    groups = [
        f"({prefix}version = {version} AND {prefix}id IN ({', '.join(map(str, sorted(ids)))}))"
        for version, ids in versions.items()
    ]
    return _any_of(groups)


def in_status(status: int, prefix: str = "") -> str:
    """A condition to stand beside a fence.

    ``+ 0`` keeps the claim index out of it. PostgreSQL and SQLite would else read every waiting task through it while
    their statistics are old (SQLite has none at all until somebody says ANALYZE); rows are to be found by id.
    """
    return f"{prefix}status + 0 = {status}"


def _any_of(conditions: list[str]) -> str:
    # In parentheses by hundreds: a chain of a thousand ORs is deeper than SQLite allows an expression to be.
    while len(conditions) > 1:
        conditions = [f"({' OR '.join(some)})" for some in _by_hundreds(conditions)]
    return conditions[0] if conditions else "(1 = 0)"


def _by_hundreds(conditions: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(conditions), 100):
        yield conditions[start : start + 100]
