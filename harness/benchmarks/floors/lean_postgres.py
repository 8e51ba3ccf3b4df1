"""PostgreSQL: claim and settlement in one statement each."""

from collections.abc import Callable
from typing import Any

import psycopg

from harness.benchmarks.floors.lean import Row, drain

SCHEMA = """DROP TABLE IF EXISTS lean_task, lean_run;
CREATE TABLE lean_task(id BIGSERIAL PRIMARY KEY, biz_code VARCHAR(50) NOT NULL, biz_num VARCHAR(100) NOT NULL,
 when_time TIMESTAMPTZ NOT NULL, claim_at TIMESTAMPTZ NOT NULL, biz_ext JSONB, status SMALLINT NOT NULL DEFAULT 0,
 version INT NOT NULL DEFAULT 0, queue VARCHAR(50) NOT NULL DEFAULT 'default', priority SMALLINT NOT NULL DEFAULT 0,
 executor VARCHAR(64), attempts INT NOT NULL DEFAULT 0, create_time TIMESTAMPTZ DEFAULT now(),
 update_time TIMESTAMPTZ DEFAULT now(), UNIQUE(biz_code, biz_num));
CREATE INDEX lean_claim ON lean_task(status, queue, priority, claim_at, id);
CREATE TABLE lean_run(id BIGSERIAL PRIMARY KEY, biz_code VARCHAR(50) NOT NULL, biz_num VARCHAR(100) NOT NULL,
 when_time TIMESTAMPTZ, started TIMESTAMPTZ, finished TIMESTAMPTZ, outcome SMALLINT, result JSONB, error TEXT,
 executor VARCHAR(64), attempt INT);
CREATE INDEX lean_run_identity ON lean_run(biz_code, biz_num);
CREATE INDEX lean_run_finished ON lean_run(finished)"""
FILL = """INSERT INTO lean_task(biz_code, biz_num, when_time, claim_at)
 SELECT 'c', 'd' || i, now() - interval '1 day', now() - interval '1 day' FROM generate_series(1, %s) i"""
CLAIM = """WITH due AS MATERIALIZED (SELECT id FROM lean_task WHERE status = 0 AND queue = 'default' AND priority = 0
  AND claim_at <= clock_timestamp() ORDER BY claim_at, id LIMIT %s FOR UPDATE SKIP LOCKED)
 UPDATE lean_task t SET status = 1, version = version + 1, attempts = attempts + 1, executor = 'me' FROM due
 WHERE t.id = due.id RETURNING t.id, t.version, t.biz_code, t.biz_num, t.when_time, t.biz_ext, t.attempts"""
SETTLE = """WITH gone AS (DELETE FROM lean_task t
  USING unnest(%s::bigint[], %s::int[], %s::float8[], %s::float8[]) v(id, version, s, f)
  WHERE t.id = v.id AND t.version = v.version AND t.status = 1
  RETURNING t.biz_code, t.biz_num, t.when_time, v.s, v.f, t.executor, t.attempts)
 INSERT INTO lean_run(biz_code, biz_num, when_time, started, finished, outcome, executor, attempt)
 SELECT biz_code, biz_num, when_time, to_timestamp(s), to_timestamp(f), 0, executor, attempts FROM gone"""


def fill(entry: dict[str, Any], tasks: int) -> None:
    """Create the tables again, with ``tasks`` due tasks."""
    with _connect(entry) as connection:
        connection.execute(SCHEMA)
        connection.execute(FILL, (tasks,))
        connection.execute("ANALYZE lean_task")


def pipeline(entry: dict[str, Any], batch: int, place: int, processes: int) -> Callable[[], int]:
    """Return a function that drains the table; several skip each other's rows."""
    claimer, settler = _connect(entry), _connect(entry)

    def settle(finished: list[Row]) -> int:
        return settler.execute(SETTLE, [list(column) for column in zip(*finished, strict=True)]).rowcount

    return lambda: drain(lambda limit: claimer.execute(CLAIM, (limit,)).fetchall(), settle, batch)


def _connect(entry: dict[str, Any]) -> "psycopg.Connection[Any]":
    return psycopg.connect(
        host=entry["HOST"], port=int(entry["PORT"]), user=entry["USER"], password=entry["PASSWORD"],
        dbname=entry["NAME"], autocommit=True,
    )  # fmt: skip
