"""What users do to many resources at once: enable, disable, release by force. The ids of those changed are returned."""

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.resources.resources import FREE_NOW
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import Claim, fence
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import atomically


def enable_all(alias: str, seen: Collection[Claim], enabled: bool) -> list[int]:
    """Enable or disable these resources, in whatever version (each lease is a new one); a holder keeps its own."""
    return _change(alias, _one_of([pk for pk, _ in seen]), "enabled = %s", [enabled])


def release_by_force(alias: str, seen: Collection[Claim]) -> list[int]:
    """End the leases, or quarantines, of resources in these versions. A holder finds out on its next use."""
    now = dialect_of(connections[alias]).now
    return _change(alias, f"{fence(seen)} AND busy_before > {now}", f"busy_before = {now}, {FREE_NOW}")


def _change(alias: str, condition: str, assignments: str, values: Sequence[Any] = ()) -> list[int]:
    dialect = dialect_of(connections[alias])

    def write(cursor: CursorWrapper) -> list[int]:
        dialect.begin_writing(cursor, RESOURCE)
        cursor.execute(f"SELECT id FROM {dialect.by_key(RESOURCE)} WHERE {condition} ORDER BY id{dialect.for_update}")
        found = [pk for (pk,) in cursor.fetchall()]
        if found:
            cursor.execute(f"{dialect.update(RESOURCE)} SET {assignments} WHERE {_one_of(found)}", values)
        return found

    return atomically(alias, write)


def _one_of(ids: Collection[int]) -> str:
    return f"id IN ({', '.join(map(int.__repr__, ids))})"
