"""The lean pipeline of the benchmarks beside one that claims from a narrow table, in turn, on one server.

    python narrow.py postgres://user:password@host:port/name 40000 10

In the narrow way a task has a row of its own in ``narrow_ready`` for as long as it may be claimed: a claim deletes that
and writes ``narrow_held``, which says who runs the task. The task's row is not touched until its end. Prints tasks per
second of each pair (TASKS due tasks that do nothing, PAIRS pairs), and the medians.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from harness.benchmarks.floors import lean_mysql, lean_postgres
from harness.benchmarks.floors.lean import Row, drain
from harness.database_urls import parse

BATCH = 100
Claim = Callable[[int], Sequence[Row]]
Settle = Callable[[list[Row]], int]
Ways = dict[str, tuple[Callable[[int], None], Callable[[], int]]]
"""By name: what fills the tables, and what drains them."""

READY = (
    "CREATE TABLE narrow_ready(id BIGINT PRIMARY KEY, version INT NOT NULL, queue VARCHAR(50) NOT NULL,"
    " priority SMALLINT NOT NULL, claim_at {moment} NOT NULL)"
)
INDEX = "CREATE INDEX narrow_claim ON narrow_ready(queue, priority, claim_at, id)"
HELD = "CREATE TABLE narrow_held(id BIGINT PRIMARY KEY, version INT NOT NULL, executor INT NOT NULL)"
FILL = "INSERT INTO narrow_ready SELECT id, version, queue, priority, claim_at FROM lean_task"
DROP = "DROP TABLE IF EXISTS narrow_ready, narrow_held"

CLAIM_POSTGRES = """WITH due AS MATERIALIZED (SELECT id FROM narrow_ready WHERE queue = 'default' AND priority = 0
  AND claim_at <= clock_timestamp() ORDER BY claim_at, id LIMIT %s FOR UPDATE SKIP LOCKED),
 gone AS (DELETE FROM narrow_ready r USING due WHERE r.id = due.id RETURNING r.id, r.version),
 held AS (INSERT INTO narrow_held SELECT id, version + 1, 1 FROM gone RETURNING id, version)
 SELECT h.id, h.version, t.biz_code, t.biz_num, t.when_time, t.biz_ext, t.attempts
 FROM held h JOIN lean_task t ON t.id = h.id"""
SETTLE_POSTGRES = """WITH ended AS (DELETE FROM narrow_held h
  USING unnest(%s::bigint[], %s::int[], %s::float8[], %s::float8[]) v(id, version, s, f)
  WHERE h.id = v.id AND h.version = v.version RETURNING h.id, h.executor, v.s, v.f),
 gone AS (DELETE FROM lean_task t USING ended e WHERE t.id = e.id
  RETURNING t.biz_code, t.biz_num, t.when_time, e.s, e.f, e.executor, t.attempts)
 INSERT INTO lean_run(biz_code, biz_num, when_time, started, finished, outcome, executor, attempt)
 SELECT biz_code, biz_num, when_time, to_timestamp(s), to_timestamp(f), 0, executor, attempts + 1 FROM gone"""

DUE_MYSQL = """SELECT t.id, r.version + 1, t.biz_code, t.biz_num, t.when_time, t.biz_ext, t.attempts
 FROM (SELECT id, version FROM narrow_ready WHERE queue = 'default' AND priority = 0
  AND claim_at <= UTC_TIMESTAMP(6) ORDER BY claim_at, id LIMIT %s) r STRAIGHT_JOIN lean_task t ON t.id = r.id"""
RECORD_MYSQL = """INSERT INTO lean_run(biz_code, biz_num, when_time, started, finished, outcome, executor, attempt)
 SELECT t.biz_code, t.biz_num, t.when_time, FROM_UNIXTIME(v.s), FROM_UNIXTIME(v.f), 0, h.executor, t.attempts + 1
 FROM JSON_TABLE(%s, '$[*]' COLUMNS(id BIGINT PATH '$[0]', version INT PATH '$[1]', s DECIMAL(20,6) PATH '$[2]',
 f DECIMAL(20,6) PATH '$[3]')) v STRAIGHT_JOIN narrow_held h ON h.id = v.id STRAIGHT_JOIN lean_task t ON t.id = v.id
 WHERE h.version = v.version"""


def on_postgres(entry: dict[str, Any]) -> Ways:
    """Return both ways on PostgreSQL."""
    claimer, settler = lean_postgres._connect(entry), lean_postgres._connect(entry)

    def fill(tasks: int) -> None:
        lean_postgres.fill(entry, tasks)
        for sql in (DROP, READY.format(moment="TIMESTAMPTZ"), INDEX, HELD, FILL, "ANALYZE narrow_ready"):
            claimer.execute(sql)

    def settle(finished: list[Row]) -> int:
        return settler.execute(SETTLE_POSTGRES, [list(column) for column in zip(*finished, strict=True)]).rowcount

    def claim(limit: int) -> Sequence[Row]:
        return claimer.execute(CLAIM_POSTGRES, (limit,)).fetchall()

    return {
        "lean": (lambda tasks: lean_postgres.fill(entry, tasks), lean_postgres.pipeline(entry, BATCH, 0, 1)),
        "narrow": (fill, lambda: drain(claim, settle, BATCH)),
    }


def on_mysql(entry: dict[str, Any]) -> Ways:
    """Return both ways on MariaDB and MySQL."""
    claimer, settler = lean_mysql._cursor(entry), lean_mysql._cursor(entry)

    def fill(tasks: int) -> None:
        lean_mysql.fill(entry, tasks)
        for sql in (DROP, READY.format(moment="DATETIME(6)"), INDEX, HELD, FILL, "ANALYZE TABLE narrow_ready"):
            claimer.execute(sql)
        claimer.fetchall()

    def claim(limit: int) -> Sequence[Row]:
        claimer.execute(DUE_MYSQL, (limit,))
        rows: Sequence[Row] = claimer.fetchall()
        if rows:
            claimer.execute("BEGIN")
            if claimer.execute(f"DELETE FROM narrow_ready WHERE id IN ({lean_mysql._ids(rows)})") != len(rows):
                raise RuntimeError("another process claims here")
            held = ", ".join(f"({row[0]}, {row[1]}, 1)" for row in rows)
            claimer.execute(f"INSERT INTO narrow_held VALUES {held}")
            claimer.execute("COMMIT")
        return rows

    def settle(finished: list[Row]) -> int:
        ids = lean_mysql._ids(finished)
        settler.execute("BEGIN")
        settler.execute(RECORD_MYSQL, (json.dumps(finished),))
        settler.execute(f"DELETE FROM narrow_held WHERE id IN ({ids}) AND executor = 1")
        removed = settler.execute(f"DELETE FROM lean_task WHERE id IN ({ids})")
        settler.execute("COMMIT")
        return int(removed)

    return {
        "lean": (lambda tasks: lean_mysql.fill(entry, tasks), lean_mysql.pipeline(entry, BATCH, 0, 1)),
        "narrow": (fill, lambda: drain(claim, settle, BATCH)),
    }


def rate(way: tuple[Callable[[int], None], Callable[[], int]], tasks: int) -> float:
    """Return how many tasks per second one way drains."""
    fill, drain_all = way
    fill(tasks)
    began = time.perf_counter()
    done = drain_all()
    if done != tasks:
        raise RuntimeError(f"{tasks} tasks were due, {done} settled")
    return tasks / (time.perf_counter() - began)


def main(url: str, tasks: int, pairs: int) -> None:
    """Measure pairs in turn, each in another order than the last."""
    ways = (on_postgres if url.startswith("postgres") else on_mysql)(parse(url))
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(pairs):
        for name in sorted(ways, reverse=bool(number % 2)):
            rates[name].append(rate(ways[name], tasks))
        print(f"{number + 1}: " + ", ".join(f"{name} {rates[name][-1]:,.0f}" for name in ways))
    ratios = [narrow / lean for lean, narrow in zip(rates["lean"], rates["narrow"], strict=True)]
    medians = ", ".join(f"{name} {statistics.median(some):,.0f}" for name, some in rates.items())
    print(f"tasks/s, medians: {medians}; narrow to lean {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
