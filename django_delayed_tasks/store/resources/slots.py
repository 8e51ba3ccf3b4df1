"""Slots (``max_concurrent``): each running task of a limited code holds one.

A slot is a resource that names the claim holding it, and it is free when that claim has ended, in whatever way. There
are no counters: a slot belongs to a claim, so nothing has to give it back and no crash can leak it. An executor that
finds a slot free takes it by its version.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.fields import RESERVED_POOLS
from django_delayed_tasks.store.resources.rate_tokens import add_missing
from django_delayed_tasks.store.resources.resources import UNUSED, delete_unchanged
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, Seen, in_status, unchanged
from django_delayed_tasks.store.sql.tables import RESOURCE, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import decisively

SLOTS: Final = f"{RESERVED_POOLS}slots."
"""The prefix of the slots' pool names; the code follows."""
MAX_KEY: Final = 100
"""Characters of a key that is a slot's name as it is, for people to read; of a longer one it is a hash."""

Slot = Seen
"""A slot as it was found; each time it is taken, its version grows by one."""


class _Found(NamedTuple):
    slot: Slot
    name: str
    is_free: bool


def free_slots(alias: str, code: str, limit: int, wanted: Mapping[str, int]) -> dict[str, list[Slot]]:
    """Return free slots of each key ("" for none), as they are now; missing ones are created.

    Args:
        limit: how many slots each key has.
        wanted: how many slots of each key are wanted; more may be returned.
    """
    pool = SLOTS + code
    keys = {f"{_named(key)}#{number}": key for key in wanted for number in range(1, limit + 1)}
    found = _look(alias, pool, keys)
    if missing := _missing(keys, found, wanted):
        add_missing(alias, pool, missing)
        found = _look(alias, pool, keys)
    free: dict[str, list[Slot]] = {key: [] for key in wanted}
    for one in found:
        if one.is_free:
            free[keys[one.name]].append(one.slot)
    return free


def _missing(keys: dict[str, str], found: list[_Found], wanted: Mapping[str, int]) -> list[str]:
    """Return the names of slots to create: as many as are needed and as the limit allows."""
    there = {one.name for one in found}
    short = dict(wanted)
    for one in found:
        short[keys[one.name]] -= one.is_free
    missing = []
    for name, key in keys.items():
        if name not in there and short[key] > 0:
            missing.append(name)
            short[key] -= 1
    return missing


def write_slots(cursor: CursorWrapper, dialect: Dialect, chosen: Mapping[Claim, Slot]) -> bool:
    """Give these claims their slots, in the transaction that makes the claims; return False if one was taken."""
    tasks = " ".join(f"WHEN {slot[0]:d} THEN {claim.id:d}" for claim, slot in chosen.items())
    versions = " ".join(f"WHEN {slot[0]:d} THEN {claim.version:d}" for claim, slot in chosen.items())
    cursor.execute(
        f"{dialect.update(RESOURCE)} SET version = version + 1, busy_before = {dialect.now},"
        f" task_id = CASE id {tasks} END, task_version = CASE id {versions} END WHERE {unchanged(chosen.values())}"
    )
    return bool(cursor.rowcount == len(chosen))


def delete_unused_slots(alias: str, batch: int) -> int:
    """Delete slots that are free and have not been taken for :data:`UNUSED`; return their number."""
    past = dialect_of(connections[alias]).later(-UNUSED)

    def read(cursor: CursorWrapper) -> list[Slot]:
        cursor.execute(
            f"SELECT r.id, r.version FROM {RESOURCE} r {HOLDER} WHERE r.pool LIKE %s"
            f" AND r.busy_before < {past} AND t.id IS NULL LIMIT {batch:d}",
            [f"{SLOTS}%"],
        )
        return [(pk, version) for pk, version in cursor.fetchall()]

    return delete_unchanged(alias, decisively(alias, read))


HOLDER: Final = f"LEFT JOIN {TASK} t ON t.id = r.task_id AND t.version = r.task_version AND {in_status(RUNNING, 't.')}"
"""Joins a slot ``r`` with the running task ``t`` that holds it, if there is one."""


def _look(alias: str, pool: str, names: Iterable[str]) -> list[_Found]:
    chosen = list(names)
    marks = ", ".join(["%s"] * len(chosen))
    sql = (
        f"SELECT r.id, r.version, r.name, CASE WHEN t.id IS NULL THEN 1 ELSE 0 END"
        f" FROM {RESOURCE} r {HOLDER}"
        f" WHERE r.pool = %s AND r.name IN ({marks}) ORDER BY r.id"
    )

    def read(cursor: CursorWrapper) -> list[_Found]:
        cursor.execute(sql, [pool, *chosen])
        return [_Found((pk, version), name, bool(free)) for pk, version, name, free in cursor.fetchall()]

    return decisively(alias, read)


def _named(key: str) -> str:
    if len(key) <= MAX_KEY and key.isascii() and key.isprintable() and not key.startswith("sha256:"):
        return key  # in any character set
    return "sha256:" + hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
