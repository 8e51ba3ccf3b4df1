"""Rate tokens (``rate``): each start of a run leases a token for the rate's period; it comes back by the clock alone.

There are as many tokens as the rate allows starts in a period, so no period of this length, wherever it begins, has
more starts. A handler with a ``concurrency_key`` has tokens for each key, created as they are needed.
"""

import hashlib
import random
from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.db.models import DateTimeField, QuerySet
from django.db.models.expressions import RawSQL

from django_delayed_tasks.fields import RESERVED_POOLS
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources.resources import UNUSED, delete_unchanged
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Seen, unchanged
from django_delayed_tasks.store.sql.portions import portions
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import in_one_statement, in_one_write, read_rows

STARTS: Final = f"{RESERVED_POOLS}starts."
"""The prefix of the tokens' pool names; the code follows."""
KEY_STARTS: Final = f"{RESERVED_POOLS}key-starts."
"""The same for tokens of one key; the code and a hash of the key follow."""
SPARE: Final = 8
"""Tokens that are read in addition: those that are free first may be locked by an executor that was stopped."""


Token = Seen
"""A token as it was found; each time it is taken, its version grows by one."""


class FreeTokens(NamedTuple):
    """The free rate tokens, and the seconds until the next one is free, None if that is not known."""

    free: list[Token]
    next_in: float | None


def tokens_of(code: str, key: str = "") -> str:
    """Return the name of the pool that has the tokens of this code, or those of one key."""
    if not key:
        return STARTS + code
    digest = hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{KEY_STARTS}{code}.{digest}"


def provide_tokens(alias: str, pool: str, starts: int, period: timedelta, short: int | None = None) -> None:
    """Make ``starts`` the number of rate tokens in the pool; each held one comes back within ``period`` from now.

    ``short`` is as in :func:`shape`.
    """
    shape(alias, pool, starts, short)
    later = dialect_of(connections[alias]).later(period)

    def write(cursor: CursorWrapper) -> None:
        cursor.execute(
            f"UPDATE {RESOURCE} SET busy_before = {later} WHERE pool = %s AND enabled = TRUE AND busy_before > {later}",
            [pool],
        )

    in_one_write(alias, write)


def free_tokens(alias: str, pool: str, period: timedelta, count: int) -> FreeTokens:
    """Return up to ``count`` free rate tokens, and when the next one is free if these are taken for ``period`` now."""
    return _looked(_look(alias, pool, count), period, count)


def free_growing(alias: str, pool: str, starts: int, period: timedelta, count: int, is_shaped: bool) -> FreeTokens:
    """Like :func:`free_tokens`, for a pool that has only the tokens that were needed so far, ``starts`` at most.

    ``is_shaped``: whether ``starts`` and ``period`` have been applied to the tokens that are there.
    """
    rows = _look(alias, pool, count)
    short = max(0, count - sum(wait <= 0 for _, _, wait in rows))
    if not is_shaped:
        provide_tokens(alias, pool, starts, period, short)
    elif short:
        shape(alias, pool, starts, short)
    else:
        return _looked(rows, period, count)
    return free_tokens(alias, pool, period, count)


def write_tokens(cursor: CursorWrapper, dialect: Dialect, tokens: Collection[Token], period: timedelta) -> bool:
    """Take these tokens for ``period``, in the transaction that makes the claims; return False if one was taken."""
    cursor.execute(
        f"{dialect.update(RESOURCE)} SET version = version + 1, busy_before = {dialect.later(period)}"
        f" WHERE {unchanged(tokens)}"
    )
    return bool(cursor.rowcount == len(tokens))


def delete_unused_starts(alias: str, batch: int) -> int:
    """Delete tokens of keys that have been free for :data:`UNUSED`; return their number."""
    past = dialect_of(connections[alias]).later(-UNUSED)
    sql = f"SELECT id, version FROM {RESOURCE} WHERE pool LIKE %s AND busy_before < {past} LIMIT {batch:d}"
    return delete_unchanged(alias, [(pk, version) for pk, version in read_rows(alias, sql, [f"{KEY_STARTS}%"])])


Row = tuple[int, int, float]
"""A token: (id, version, seconds until it is free)."""


def _looked(rows: list[Row], period: timedelta, count: int) -> FreeTokens:
    free = [(pk, version) for pk, version, wait in rows if wait <= 0]
    waits = [wait for _, _, wait in rows if wait > 0]
    if 0 < len(free) == len(rows) < count:
        waits = [period.total_seconds()]  # there are no more tokens than these
    random.shuffle(free)
    return FreeTokens(free[:count], min(waits, default=None))


def _look(alias: str, pool: str, count: int) -> list[Row]:
    """Return the tokens that are free first, in that order: ``count`` and a few more."""
    dialect = dialect_of(connections[alias])

    def read(cursor: CursorWrapper) -> list[Row]:
        cursor.execute(  # on SQLite, the present is a literal: each try has its own
            f"SELECT id, version, busy_before, {dialect.now} FROM {RESOURCE} WHERE pool = %s AND enabled = TRUE"
            f" ORDER BY busy_before, id LIMIT {count + SPARE:d}",
            [pool],
        )
        return [
            (pk, version, (dialect.to_datetime(busy_before) - dialect.to_datetime(now)).total_seconds())
            for pk, version, busy_before, now in cursor.fetchall()
        ]

    return in_one_statement(alias, read)


def add_missing(alias: str, pool: str, names: Collection[str]) -> None:
    """Create resources of these names, which are free; one that exists already is left as it is."""
    # Mark them as free from now on: with an older time, housekeeping would delete them as unused.
    now: Any = RawSQL(dialect_of(connections[alias]).now, [], output_field=DateTimeField())
    rows = [Resource(pool=pool, name=name, version=1, busy_before=now) for name in sorted(names)]
    for some in portions(rows):
        _insert(alias, some)


def _insert(alias: str, rows: Sequence[Resource]) -> None:
    resources = Resource.objects.using(alias)
    in_one_write(alias, lambda _: resources.bulk_create(rows, ignore_conflicts=True))


def shape(alias: str, pool: str, size: int, short: int | None = None) -> None:
    """Make ``size`` the number of enabled resources in the pool.

    With ``short``, the number of resources that callers lacked, the pool grows as it is used: by that number, and at
    least to twice its size, but not beyond ``size``.

    Shrinking disables the resources that have been free longest; growing enables those again, as they are, before
    creating new ones. No resource is deleted, so a held one is still counted after the size went down and up again.
    """
    rows: Any = Resource.objects.using(alias).filter(pool=pool).order_by("busy_before", "id")
    found = list(rows.values_list("id", "name", "enabled"))
    enabled = [pk for pk, _, is_enabled in found if is_enabled]
    disabled = [pk for pk, _, is_enabled in found if not is_enabled]
    wanted = size if short is None else min(size, len(enabled) + (short and max(short, len(enabled))))
    if len(enabled) > size:
        _enable(alias, enabled[: len(enabled) - size], False)
    elif len(enabled) < wanted:
        _enable(alias, disabled[: wanted - len(enabled)], True)
        names = {name for _, name, _ in found}
        add_missing(alias, pool, _unused(names, wanted - len(enabled) - len(disabled)))


def _unused(names: set[str], count: int) -> list[str]:
    numbers = (f"#{number}" for number in range(1, len(names) + count + 1))
    return list(islice((name for name in numbers if name not in names), max(0, count)))


def _enable(alias: str, ids: list[int], enabled: bool) -> None:
    resources = Resource.objects.using(alias)
    for some in portions(ids):
        in_one_write(alias, partial(_update, resources.filter(pk__in=some), enabled))


def _update(resources: QuerySet[Resource], enabled: bool, cursor: CursorWrapper) -> int:
    return resources.update(enabled=enabled)
