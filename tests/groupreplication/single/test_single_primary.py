"""A group of which one node takes the writes, and then another one."""

from collections import Counter
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_delayed_tasks import api
from django_delayed_tasks.states import CancelResult
from tests.complaints import numbers
from tests.store import verbs

SWITCHES = 6


def ask(alias: str, sql: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_the_engine_finds_the_primary_node(nodes: tuple[str, ...], moving: str) -> None:
    """Though its list begins with others."""
    assert ask(moving, "SELECT @@server_uuid") == ask("default", "SELECT @@server_uuid")


def test_another_node_refuses_writes(nodes: tuple[str, ...]) -> None:
    verbs.add("1", verbs.HOUR)
    with pytest.raises(OperationalError, match="super-read-only"):
        api.cancel_task(verbs.CODE, "1", using="node2")
    assert api.cancel_task(verbs.CODE, "1") is CancelResult.CANCELLED


def test_what_was_added_before_a_switchover_is_cancelled_after_it(nodes: tuple[str, ...], moving: str) -> None:
    """The new primary node may still have to apply what the old one has committed."""
    results: Counter[CancelResult] = Counter()
    number = 0
    for turn in range(1, SWITCHES + 1):
        to = nodes[turn % len(nodes)]
        added = [verbs.task(str(number := number + 1), verbs.HOUR) for _ in range(20)]
        for task in added:
            api.add_task(task, using=moving)
        ask(to, f"SELECT group_replication_set_as_primary('{ask(to, 'SELECT @@server_uuid')}')")
        assert not connections[moving].is_usable()
        connections[moving].close()
        for task in added:
            results[api.cancel_task(verbs.CODE, task.biz_num, using=moving)] += 1
        assert ask(moving, "SELECT @@server_uuid") == ask(to, "SELECT @@server_uuid")
    assert results == {CancelResult.CANCELLED: 20 * SWITCHES}


@pytest.mark.parametrize(("consistency", "expected"), [("EVENTUAL", ["W014"]), ("BEFORE_ON_PRIMARY_FAILOVER", [])])
def test_checks(nodes: tuple[str, ...], consistency: str, expected: list[str]) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("SET SESSION group_replication_consistency = %s", [consistency])
    assert numbers(["default"]) == expected
