"""The purge of tables whose rows are only added, in the order of their primary keys, which nearly follows their age."""

from collections.abc import Container
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import Final, NamedTuple

from django.db import connections

from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.portions import MAX_PURGED
from django_delayed_tasks.store.sql.tables import RUN, SUCCESS
from django_delayed_tasks.store.sql.transactions import delete_rows, read_rows


class Aging(NamedTuple):
    """A table, and the column with the moment from which its rows age."""

    table: str
    since: str


RUNS: Final = Aging(RUN, "finished")
SUCCESSES: Final = Aging(SUCCESS, "succeeded_at")


@dataclass(frozen=True)
class AllBut:
    """All codes but these."""

    codes: frozenset[str]

    def __contains__(self, code: object) -> bool:
        return code not in self.codes


ALL: Final = AllBut(frozenset())


class PurgeResult(NamedTuple):
    """The result of one :func:`purge`: the number of rows ``deleted``, and the id after which the next continues."""

    deleted: int
    position: int
    is_complete: bool
    """Whether all rows that are old enough have been read."""
    young: int = 0
    """The id of the first row read that is not old enough, or 0; it is ahead of its time if the position passes it."""


def purge(
    alias: str,
    older_than: timedelta,
    codes: Container[str],
    after: int = 0,
    batch_size: int = MAX_PURGED,
    rows_of: Aging = RUNS,
) -> PurgeResult:
    """Read at most ``batch_size`` rows with ids above ``after``; delete those of the ``codes`` that are old enough.

    Rows are written as runs end, so the primary key nearly follows their age: no index on a time is needed, and rows
    of other codes are read once, when the position passes them. It also passes rows that are ahead of their time, as
    after the clock was wrong: it is for the caller to look at them again some time, from ``young`` on.
    """
    reader = _Reader(alias, rows_of, older_than)
    rows = reader.portion(after, batch_size)
    old = [row.id for row in rows if row.is_old and row.biz_code in codes]
    delete_rows(alias, rows_of.table, old)
    passed = reader.passed(rows, batch_size)
    position = passed[-1].id if passed else after
    if not rows and reader.newest() < after:
        position = 0  # after TRUNCATE, or from a backup, ids begin again
    young = next((row.id for row in rows if not row.is_old), 0)
    return PurgeResult(len(old), position, len(passed) < batch_size, young)


def count_old(alias: str, older_than: timedelta, codes: Container[str], batch_size: int = MAX_PURGED) -> int:
    """Return how many rows calls of :func:`purge` would delete, one for each portion of the history."""
    reader = _Reader(alias, RUNS, older_than)
    count = after = 0
    while rows := reader.portion(after, batch_size):
        count += sum(row.is_old and row.biz_code in codes for row in rows)
        passed = reader.passed(rows, batch_size)
        if len(passed) < batch_size:
            break
        after = passed[-1].id
    return count


class _Row(NamedTuple):
    id: int
    biz_code: str
    is_old: bool


@dataclass(frozen=True)
class _Reader:
    """The part of one table that is read for its purge."""

    alias: str
    rows_of: Aging
    older_than: timedelta

    def portion(self, after: int, batch_size: int) -> list[_Row]:
        """Return the next rows, at most ``batch_size``; only a few if they are young and no old ones follow."""
        few = self._rows(after, most := max(1, batch_size // 10))
        if len(few) < most or not (any(row.is_old for row in few) or self._old_follow(few)):
            return few
        return self._rows(after, batch_size)

    def passed(self, rows: list[_Row], batch_size: int) -> list[_Row]:
        """Return the rows of a portion that the position passes: those before the first young one.

        If older rows follow the portion, the young ones in it are ahead of their time, and all are passed.
        """
        passed = list(takewhile(lambda row: row.is_old, rows))
        if len(passed) < len(rows) == batch_size and (rows[-1].is_old or self._old_follow(rows)):
            return rows
        return passed

    def _old_follow(self, rows: list[_Row]) -> bool:
        """Return whether a row far behind the portion is old: of one for each power of two times its length."""
        newest = self.newest()
        distances = (len(rows) << power for power in range(64))
        probes = [rows[-1].id + far for far in takewhile(lambda each: rows[-1].id + each <= newest, distances)]
        if not probes:
            return False
        table = self.rows_of.table
        sql = " UNION ALL ".join(f"SELECT MIN(id) FROM {table} WHERE id >= {probe:d}" for probe in probes)
        among = ", ".join(str(pk) for (pk,) in read_rows(self.alias, sql) if pk is not None) or "NULL"
        ((is_old,),) = read_rows(self.alias, f"SELECT MAX({self._is_old()}) FROM {table} WHERE id IN ({among})")
        return bool(is_old)

    def newest(self) -> int:
        ((newest,),) = read_rows(self.alias, f"SELECT MAX(id) FROM {self.rows_of.table}")
        return newest or 0

    def _rows(self, after: int, most: int) -> list[_Row]:
        sql = (
            f"SELECT id, biz_code, {self._is_old()} FROM {self.rows_of.table}"
            f" WHERE id > {after:d} ORDER BY id LIMIT {most:d}"
        )
        return [_Row(pk, biz_code, bool(is_old)) for pk, biz_code, is_old in read_rows(self.alias, sql)]

    def _is_old(self) -> str:
        cutoff = dialect_of(connections[self.alias]).later(-self.older_than)
        return f"CASE WHEN {self.rows_of.since} < {cutoff} THEN 1 ELSE 0 END"
