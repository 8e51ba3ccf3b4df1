"""Fences: the condition, in every write that follows from a claim, that the row is still in the claimed version."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.portions import portions
from django_delayed_tasks.store.sql.tables import TASK

Claim = tuple[int, int]
"""(task id, version), which identifies one claim: a version is never used again."""

MAX_VERSION = 2**63 - 1
"""The largest version. Only a row that was written by other means has it; such a row is left as it is."""


def fence(claims: Iterable[Claim], prefix: str = "") -> str:
    """Return a condition that is true for the rows of these claims as long as their version is unchanged.

    For no claims it is false. Ids are grouped by version (most tasks of a batch have the same one), so that every
    database reads them as a range of the primary key. Integers are written into the text: hundreds of parameters are
    slow.

    Raises:
        TypeError: an id is not an integer.
        ValueError: a version is not an integer.
    """
    versions: defaultdict[int, list[int]] = defaultdict(list)
    for task_id, version in claims:
        versions[version].append(task_id)
    groups = [
        f"({prefix}version = {version:d} AND {prefix}id IN ({', '.join(map(int.__repr__, sorted(ids)))}))"
        for version, ids in versions.items()
    ]
    return groups[0] if len(groups) == 1 else _any_of(groups)


def in_status(status: int, prefix: str = "") -> str:
    """Return a condition on the status, to be used together with a fence.

    ``+ 0`` keeps databases from using the claim index: rows are to be found by id. Otherwise PostgreSQL and SQLite
    would read every waiting task through that index while their statistics are old (SQLite has none before ANALYZE).
    """
    return f"{prefix}status + 0 = {status}"


def _any_of(conditions: list[str]) -> str:
    # Grouped by hundreds: a chain of a thousand ORs is a deeper expression than SQLite allows.
    while len(conditions) > 1:
        conditions = [f"({' OR '.join(some)})" for some in portions(conditions, 100)]
    return conditions[0] if conditions else "(1 = 0)"


def lock_unchanged(cursor: CursorWrapper, dialect: Dialect, seen: Collection[Claim], accepts: str) -> dict[Claim, int]:
    """Lock the tasks that are still in the version in which they were seen.

    Return the status of each for which the condition ``accepts`` is true.
    """
    dialect.begin_writing(cursor, TASK)
    # The condition is selected, not compared, so that only entries of the indexes on keys are read, and locked.
    cursor.execute(
        f"SELECT t.id, t.version, t.status, ({accepts}) FROM {dialect.to_lock(TASK, fence(seen))}"
        f" WHERE {fence(seen, 't.')} ORDER BY t.id{dialect.for_update}"
    )
    return {(task_id, version): status for task_id, version, status, is_accepted in cursor.fetchall() if is_accepted}
