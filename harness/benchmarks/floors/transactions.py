"""Atomic runs without the product: claims of a batch by one connection, and a transaction for each task by several.

A transaction does what the product's does: the effect is inserted, the task's row is locked and its claim looked at,
the history is written, the task deleted, all committed. On the product's own tables.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from harness.benchmarks.floors.inserts import connect

TASK, RUN, EFFECT = "django_delayed_tasks_task", "django_delayed_tasks_taskrun", "effects_effect"
DUE = f"FROM {TASK} WHERE status = 0 AND queue = 'default' AND priority = 0 AND claim_at <= NOW"
TAKE = "status = 1, version = version + 1, attempts = attempts + 1, executor = 1, update_time = NOW"
INSERT = f"INSERT INTO {EFFECT} (biz_num) VALUES (%s)"
LOCK = (
    "SELECT id, version, deferred_when, cancel_requested_at, deferred_once"
    f" FROM {TASK} WHERE id = %s AND version = %s AND status = 1 FOR UPDATE"
)
RECORD = (
    f"INSERT INTO {RUN} (task_id, version, biz_code, biz_num, when_time, attempt, executor, outcome, started, finished,"
    " error) SELECT id, version, biz_code, biz_num, when_time, attempts, executor, 0, NOW, NOW, ''"
    f" FROM {TASK} WHERE id = %s"
)
DELETE = f"DELETE FROM {TASK} WHERE id = %s"

Claimed = tuple[int, int, str]
"""id, version, biz_num."""


class MySQL:
    """MariaDB and MySQL: a plain SELECT and one UPDATE; several processes take each the ids that fall to them."""

    now = "UTC_TIMESTAMP(6)"

    def __init__(self, cursor: Any, place: int, processes: int) -> None:
        self._cursor = cursor
        share = f"AND id %% {processes} = {place}"
        self._select = f"SELECT id, version + 1, biz_num {DUE} {share} ORDER BY claim_at, id LIMIT %s"

    def claim(self, limit: int) -> Sequence[Claimed]:
        self._cursor.execute(self._select.replace("NOW", self.now), (limit,))
        rows: Sequence[Claimed] = self._cursor.fetchall()
        if rows:
            ids = ", ".join(str(row[0]) for row in rows)
            self._cursor.execute(
                f"UPDATE {TASK} SET {TAKE} WHERE id IN ({ids}) AND status = 0".replace("NOW", self.now)
            )
        return rows


class PostgreSQL:
    """One statement; several processes skip each other's rows."""

    now = "clock_timestamp()"

    def __init__(self, cursor: Any, place: int, processes: int) -> None:
        self._cursor = cursor

    def claim(self, limit: int) -> Sequence[Claimed]:
        due = f"SELECT id {DUE} ORDER BY claim_at, id LIMIT %s FOR UPDATE SKIP LOCKED"
        take = TAKE.replace("= version", "= t.version").replace("= attempts", "= t.attempts")
        sql = (
            f"WITH due AS MATERIALIZED ({due}) UPDATE {TASK} t SET {take} FROM due WHERE t.id = due.id"
            " RETURNING t.id, t.version, t.biz_num"
        )
        self._cursor.execute(sql.replace("NOW", self.now), (limit,))
        rows: Sequence[Claimed] = self._cursor.fetchall()
        return rows


def pipeline(entry: dict[str, Any], batch: int, place: int, processes: int, threads: int) -> Callable[[], int]:
    """Return a function that drains the table of its due tasks in ``threads`` threads, and returns their number."""
    way = PostgreSQL if "postgres" in entry["ENGINE"] else MySQL
    store = way(connect(entry).cursor(), place, processes)
    workers = [connect(entry).cursor() for _ in range(threads)]
    statements = [sql.replace("NOW", way.now) for sql in (LOCK, RECORD, DELETE)]
    return lambda: drain(store.claim, workers, statements, batch)


def drain(
    claim: Callable[[int], Sequence[Claimed]], cursors: Sequence[Any], statements: Sequence[str], batch: int
) -> int:
    """Claim ahead of the threads, a batch at a time, until nothing is due."""
    todo: queue.SimpleQueue[Claimed | None] = queue.SimpleQueue()
    slots = threading.Semaphore(2 * batch)
    done: list[int] = []

    def work(cursor: Any) -> None:
        count = 0
        while (task := todo.get()) is not None:
            slots.release()
            run(cursor, task, *statements)
            count += 1
        done.append(count)

    threads = [threading.Thread(target=work, args=(cursor,)) for cursor in cursors]
    for thread in threads:
        thread.start()
    while rows := claim(batch):
        for row in rows:
            slots.acquire()
            todo.put(row)
    for _ in threads:
        todo.put(None)
    for thread in threads:
        thread.join()
    return sum(done)


def run(cursor: Any, task: Claimed, lock: str, record: str, delete: str) -> None:
    """The transaction of one task."""
    task_id, version, num = task
    cursor.execute("BEGIN")
    cursor.execute(INSERT, (num,))
    cursor.execute(lock, (task_id, version))
    if not cursor.fetchone():
        raise RuntimeError("another process claims here")
    cursor.execute(record, (task_id,))
    cursor.execute(delete, (task_id,))
    cursor.execute("COMMIT")
