"""How many pages of the database an action looks at.

InnoDB counts no row that it skips, so there the pages are counted that the whole server looks at; the least of several
times is what the action needs.
"""

import json
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

EXPLAINED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
"""Statements that are explained begin so."""


def pages_of(action: Callable[[], object]) -> int:
    """The fewest pages (on SQLite steps, by hundreds) that the action needs."""
    return min(_PAGES[connection.vendor](action) for _ in range(30))


def _of_server(action: Callable[[], object]) -> int:
    def requests() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")
            return int(cursor.fetchone()[1])

    before = requests()
    action()
    return requests() - before


def _by_explaining(action: Callable[[], object]) -> int:
    pages = 0

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        nonlocal pages
        if sql.lstrip().startswith(EXPLAINED):
            with transaction.atomic():
                execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params, many, context)
                [[found]] = context["cursor"].fetchall()
                transaction.set_rollback(True)
            plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        action()
    return pages


def _by_steps(action: Callable[[], object]) -> int:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.connection.set_progress_handler(step, 100)
    try:
        action()
    finally:
        connection.connection.set_progress_handler(None, 1)
    return steps


_PAGES = {"mysql": _of_server, "postgresql": _by_explaining, "sqlite": _by_steps}
