"""Fences: the condition, in every write that follows from a claim, that the row still has that claim.

Writes that follow from a look at a row have the condition that it is still in the version that was seen.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.portions import portions
from django_delayed_tasks.store.sql.tables import TASK

Seen = tuple[int, int]
"""(id, version): a row as it was seen. A database that is set back, or emptied, gives both again."""


class Claim(NamedTuple):
    """One claim: no other one has its three values, also after the database was set back (docs/decisions/0031).

    Attributes:
        id: the task's id.
        version: the task's version, which the claim gave to it.
        executor: the id under which the executor made this claim; it may have another one since. None in a row that was
            written by other means.
    """

    id: int
    version: int
    executor: int | None

    def __repr__(self) -> str:
        return f"({self.id}, {self.version})"  # in logs, which show no ids of executors


OF_CLAIM: Final = ", ".join(Claim._fields)
"""The columns of a claim."""
MAX_VERSION = 2**63 - 1
"""The largest version. Only a row that was written by other means has it; such a row is left as it is."""


def fence(claims: Iterable[Claim], prefix: str = "") -> str:
    """Return a condition that is true for the rows of these claims as long as they are held; false for no claims.

    Raises:
        TypeError: an id is not an integer.
        ValueError: a version or an executor's id is not an integer.
    """
    alike: defaultdict[tuple[int, int | None], list[int]] = defaultdict(list)
    for task_id, version, executor in claims:
        alike[version, executor].append(task_id)
    return _any_of(
        [
            _rows(ids, f"{prefix}executor {_is(executor)} AND {prefix}version = {version:d}", prefix)
            for (version, executor), ids in alike.items()
        ]
    )


def _is(executor: int | None) -> str:
    return "IS NULL" if executor is None else f"= {executor:d}"


def unchanged(seen: Iterable[Seen], prefix: str = "") -> str:
    """Return a condition that is true for rows that are in the version in which they were seen; errors as above."""
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for row_id, version in seen:
        alike[version].append(row_id)
    return _any_of([_rows(ids, f"{prefix}version = {version:d}", prefix) for version, ids in alike.items()])


def _rows(ids: list[int], condition: str, prefix: str) -> str:
    """Return the condition for these rows, of which most of a batch are alike: a range of the primary key.

    Integers are written into the text: hundreds of parameters are slow.
    """
    return f"({condition} AND {prefix}id IN ({', '.join(map(int.__repr__, sorted(ids)))}))"


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


def lock_unchanged(cursor: CursorWrapper, dialect: Dialect, seen: Collection[Seen], accepts: str) -> dict[Seen, int]:
    """Lock the tasks that are still in the version in which they were seen.

    Return the status of each for which the condition ``accepts`` is true.
    """
    dialect.begin_writing(cursor, TASK)
    # The condition is selected, not compared, so that only entries of the indexes on keys are read, and locked.
    cursor.execute(
        f"SELECT t.id, t.version, t.status, ({accepts}) FROM {dialect.to_lock(TASK, unchanged(seen))}"
        f" WHERE {unchanged(seen, 't.')} ORDER BY t.id{dialect.for_update}"
    )
    return {(task_id, version): status for task_id, version, status, is_accepted in cursor.fetchall() if is_accepted}
