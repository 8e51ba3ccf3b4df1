"""The check that every write which follows from a claim carries: this row, in this version."""

from collections import defaultdict
from collections.abc import Iterable

Claim = tuple[int, int]
"""(task id, version): names one claim; a version never comes back."""


def fence(claims: Iterable[Claim], prefix: str = "") -> str:
    """A condition that holds for the rows of these claims while nobody has changed their version.

    Ids are grouped by version (most tasks of a batch have the same), so that every database reads them as a range of
    the primary key. Integers are written into the text: they are ours, and hundreds of parameters are slow.
    """
    versions: defaultdict[int, list[int]] = defaultdict(list)
    for task_id, version in claims:
        versions[int(version)].append(int(task_id))
    groups = (
        f"({prefix}version = {version} AND {prefix}id IN ({', '.join(map(str, sorted(ids)))}))"
        for version, ids in versions.items()
    )
    return f"({' OR '.join(groups)})"
