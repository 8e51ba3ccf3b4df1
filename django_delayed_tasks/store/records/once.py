"""Tasks that are to be done only once: a row for each identity that has been done, found by its unique index."""

from collections.abc import Sequence

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.sql.dialects import Column, Dialect
from django_delayed_tasks.store.sql.fences import Claim, fence
from django_delayed_tasks.store.sql.tables import SUCCESS, TASK
from django_delayed_tasks.store.sql.transactions import decisive_write

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

    return decisive_write(alias, write)
