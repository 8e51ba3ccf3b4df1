"""MariaDB and MySQL: a compare-and-set claim, a settlement by JSON_TABLE, INSERT … SELECT and DELETE."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import MySQLdb

from harness.benchmarks.floors.lean import Row, drain

TASK = """CREATE TABLE lean_task(id BIGINT AUTO_INCREMENT PRIMARY KEY, biz_code VARCHAR(50) NOT NULL,
 biz_num VARCHAR(100) NOT NULL, when_time DATETIME(6) NOT NULL, claim_at DATETIME(6) NOT NULL, biz_ext LONGTEXT,
 status SMALLINT NOT NULL DEFAULT 0, version INT NOT NULL DEFAULT 0, queue VARCHAR(50) NOT NULL DEFAULT 'default',
 priority SMALLINT NOT NULL DEFAULT 0, executor VARCHAR(64), attempts INT NOT NULL DEFAULT 0, create_time DATETIME(6),
 update_time DATETIME(6), UNIQUE(biz_code, biz_num), INDEX claim(status, queue, priority, claim_at, id))
 ENGINE=InnoDB"""
RUN = """CREATE TABLE lean_run(id BIGINT AUTO_INCREMENT PRIMARY KEY, biz_code VARCHAR(50) NOT NULL,
 biz_num VARCHAR(100) NOT NULL, when_time DATETIME(6), started DATETIME(6), finished DATETIME(6), outcome SMALLINT,
 result LONGTEXT, error LONGTEXT, executor VARCHAR(64), attempt INT, INDEX(biz_code, biz_num), INDEX(finished))
 ENGINE=InnoDB"""
CANDIDATES = """SELECT id, version + 1, biz_code, biz_num, when_time, biz_ext, attempts FROM lean_task
 WHERE status = 0 AND queue = 'default' AND priority = 0 AND claim_at <= UTC_TIMESTAMP(6)
 ORDER BY claim_at, id LIMIT %s"""
CLAIM = """UPDATE lean_task SET status = 1, version = version + 1, attempts = attempts + 1, executor = 'me'
 WHERE id IN (%s) AND status = 0"""
RECORD = """INSERT INTO lean_run(biz_code, biz_num, when_time, started, finished, outcome, executor, attempt)
 SELECT t.biz_code, t.biz_num, t.when_time, FROM_UNIXTIME(v.s), FROM_UNIXTIME(v.f), 0, t.executor, t.attempts
 FROM JSON_TABLE(%s, '$[*]' COLUMNS(id BIGINT PATH '$[0]', version INT PATH '$[1]', s DECIMAL(20,6) PATH '$[2]',
 f DECIMAL(20,6) PATH '$[3]')) v STRAIGHT_JOIN lean_task t ON t.id = v.id
 WHERE t.version = v.version AND t.status = 1"""
REMOVE = "DELETE FROM lean_task WHERE id IN (%s) AND status = 1 AND executor = 'me'"
FILL_BATCH = 2000


def pipeline(entry: dict[str, Any], batch: int, place: int, processes: int) -> Callable[[], int]:
    """Return a function that drains the table; each of several takes ids of its own, so that they never meet."""
    claimer, settler = _cursor(entry), _cursor(entry)
    share = f"AND id %% {processes} = {place}" if processes > 1 else ""

    def claim(limit: int) -> Sequence[Row]:
        claimer.execute(CANDIDATES.replace("ORDER BY", f"{share} ORDER BY"), (limit,))
        rows = claimer.fetchall()
        if rows and claimer.execute(CLAIM % _ids(rows)) != len(rows):
            raise RuntimeError("another process claims here")
        return rows  # type: ignore[no-any-return]

    def settle(finished: list[Row]) -> int:
        settler.execute("BEGIN")
        settler.execute(RECORD, (json.dumps(finished),))
        removed = settler.execute(REMOVE % _ids(finished))
        settler.execute("COMMIT")
        return int(removed)

    return lambda: drain(claim, settle, batch)


def fill(entry: dict[str, Any], tasks: int) -> None:
    """Create the tables again, with ``tasks`` due tasks."""
    cursor = _cursor(entry)
    for statement in ("DROP TABLE IF EXISTS lean_task, lean_run", TASK, RUN):
        cursor.execute(statement)
    for start in range(0, tasks, FILL_BATCH):
        rows = [(f"d{number}",) for number in range(start, min(tasks, start + FILL_BATCH))]
        cursor.executemany(
            "INSERT INTO lean_task(biz_code, biz_num, when_time, claim_at)"
            " VALUES('c', %s, UTC_TIMESTAMP(6) + INTERVAL -1 DAY, UTC_TIMESTAMP(6) + INTERVAL -1 DAY)",
            rows,
        )
    cursor.execute("ANALYZE TABLE lean_task")
    cursor.fetchall()


def _cursor(entry: dict[str, Any]) -> Any:
    connection = MySQLdb.connect(
        host=entry["HOST"], port=int(entry["PORT"]), user=entry["USER"], passwd=entry["PASSWORD"], db=entry["NAME"],
        autocommit=True,
    )  # fmt: skip
    cursor = connection.cursor()
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.execute("SET SESSION time_zone = '+00:00'")
    return cursor


def _ids(rows: Sequence[Row]) -> str:
    return ",".join(str(row[0]) for row in rows)
