"""Taking permits as a claim does: they are found first, and then written in one transaction."""

from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from django.db import connections, transaction

from django_delayed_tasks.store.resources.rate_tokens import FreeTokens, Token, free_growing, free_tokens, write_tokens
from django_delayed_tasks.store.resources.slots import Slot, free_slots, write_slots
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import Claim


class ReapedTask(NamedTuple):
    """How many rate tokens were taken, and the seconds until the next one is free."""

    starts: int
    next_in: float | None


def take_slots(
    alias: str, code: str, limit: int, wanted: Mapping[str, list[Claim]], most: int = 100
) -> dict[Claim, Slot]:
    """Take free slots for up to ``most`` of these claims."""
    free = free_slots(alias, code, limit, {key: len(claims) for key, claims in wanted.items()})
    pairs = (pair for key, claims in wanted.items() for pair in zip(claims, free[key], strict=False))
    chosen = dict(islice(pairs, most))
    return chosen if chosen and give(alias, chosen) else {}


def give(alias: str, chosen: Mapping[Claim, Slot]) -> bool:
    """Write the slots of these claims, all or none."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        are_won = write_slots(cursor, dialect_of(connections[alias]), chosen)
        if not are_won:
            transaction.set_rollback(True, using=alias)
    return are_won


def take_tokens(alias: str, pool: str, period: timedelta, count: int) -> ReapedTask:
    return _taken(alias, free_tokens(alias, pool, period, count), period)


def take_growing(alias: str, pool: str, starts: int, period: timedelta, count: int, is_shaped: bool) -> ReapedTask:
    return _taken(alias, free_growing(alias, pool, starts, period, count, is_shaped), period)


def _taken(alias: str, looked: FreeTokens, period: timedelta) -> ReapedTask:
    are_won = bool(looked.free) and lease(alias, looked.free, period)
    return ReapedTask(len(looked.free) if are_won else 0, looked.next_in)


def lease(alias: str, tokens: list[Token], period: timedelta) -> bool:
    """Take these tokens, all or none."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        are_won = write_tokens(cursor, dialect_of(connections[alias]), tokens, period)
        if not are_won:
            transaction.set_rollback(True, using=alias)
    return are_won
