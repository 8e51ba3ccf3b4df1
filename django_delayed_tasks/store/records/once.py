"""Tasks that are to be done only once: a row for each identity that has been done, found by its unique index."""

from collections.abc import Sequence
from datetime import timedelta

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.sql.dialects import Column, Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, fence
from django_delayed_tasks.store.sql.tables import SUCCESS, TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement, in_one_write

Identity = tuple[str, str]

_COLUMNS = "biz_code, biz_num, succeeded_at"
_SENT = (Column("biz_code", "text"), Column("biz_num", "text"))


def remember(cursor: CursorWrapper, dialect: Dialect, claims: Sequence[Claim]) -> None:
    """Remember that the tasks of these claims have been done.

    The caller does so in the transaction that settles them, which is rolled back if a claim is not held.
    """
    insert, tail = dialect.bulk_insert(IfExists.KEEP, "")
    cursor.execute(
        f"{insert} INTO {SUCCESS} ({_COLUMNS}) SELECT t.biz_code, t.biz_num, {dialect.now} FROM {TASK} t"
        f" WHERE {fence(claims, 't.')}{tail}"
    )


def succeeded(cursor: CursorWrapper, dialect: Dialect, identities: Sequence[Identity]) -> set[Identity]:
    """Return which of these identities have been done."""
    if not identities:
        return set()
    sent = dialect.rows(_SENT, identities)
    same = f"s.biz_code = {sent.column['biz_code']} AND s.biz_num = {sent.column['biz_num']}"
    sql = f"SELECT s.biz_code, s.biz_num FROM {sent.source} {dialect.driving_join} {SUCCESS} s ON {same}"
    cursor.execute(sql, sent.parameters)
    return {(code, num) for code, num in cursor.fetchall()}


def forget(alias: str, biz_code: str, biz_num: str) -> bool:
    """Forget that this identity has been done, so that it may be done again; return False if it was not remembered."""

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"DELETE FROM {SUCCESS} WHERE biz_code = %s AND biz_num = %s", [biz_code, biz_num])
        return bool(cursor.rowcount)

    return in_one_write(alias, write)


def purge_successes(alias: str, older_than: timedelta, batch_size: int) -> int:
    """Delete the oldest rows, at most ``batch_size``, if they are older than ``older_than``; return their number.

    Rows are written as tasks succeed, so the primary key follows their age.
    """
    old = in_one_statement(alias, lambda cursor: _oldest(cursor, alias, older_than, batch_size))
    return atomically(alias, lambda cursor: _delete(cursor, old)) if old else 0


def _oldest(cursor: CursorWrapper, alias: str, older_than: timedelta, batch_size: int) -> list[int]:
    cutoff = dialect_of(connections[alias]).later(-older_than)
    is_old = f"CASE WHEN succeeded_at < {cutoff} THEN 1 ELSE 0 END"
    cursor.execute(f"SELECT id, {is_old} FROM {SUCCESS} ORDER BY id LIMIT {batch_size:d}")
    return [row[0] for row in cursor.fetchall() if row[1]]


def _delete(cursor: CursorWrapper, ids: Sequence[int]) -> int:
    cursor.execute(f"DELETE FROM {SUCCESS} WHERE id IN ({', '.join(map(str, ids))})")
    return len(ids)
