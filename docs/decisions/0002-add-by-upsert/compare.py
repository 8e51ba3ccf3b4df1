"""Ways to add a task on MariaDB and MySQL, under many threads and an executor that claims and deletes meanwhile.

Run on a private server that may be written to (it drops and creates tables in the database ``ddt_compare``):

    python compare.py --port 3306 --threads 50 --seconds 5

Needs mysqlclient alone. Every way does what "add (replace)" means: it creates the task, replaces one that is PENDING or
FAILED, and defers the schedule if the task is RUNNING.
"""

import argparse
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import MySQLdb
from MySQLdb.constants import CLIENT, ER

TASK = """CREATE TABLE task(
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  biz_code VARCHAR(50) COLLATE utf8mb4_bin NOT NULL, biz_num VARCHAR(100) COLLATE utf8mb4_bin NOT NULL,
  when_time DATETIME(6) NOT NULL, biz_ext JSON NULL, queue VARCHAR(50) COLLATE utf8mb4_bin NOT NULL,
  priority SMALLINT NOT NULL, status SMALLINT NOT NULL, claim_at DATETIME(6) NOT NULL, version BIGINT NOT NULL,
  attempts INT NOT NULL, rescues INT NOT NULL, executor BIGINT NULL, last_error LONGTEXT NOT NULL,
  deferred_when DATETIME(6) NULL, deferred_biz_ext JSON NULL,
  deferred_queue VARCHAR(50) COLLATE utf8mb4_bin NOT NULL, deferred_priority SMALLINT NULL,
  cancel_requested_at DATETIME(6) NULL, create_time DATETIME(6) NOT NULL, update_time DATETIME(6) NOT NULL,
  UNIQUE KEY ddt_task_identity (biz_code, biz_num),
  KEY ddt_task_claim (status, queue, priority, claim_at, id)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""
ORDERS = "CREATE TABLE orders(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, num VARCHAR(100) NOT NULL) ENGINE=InnoDB"

INSERT = """INTO task(biz_code, biz_num, when_time, biz_ext, queue, priority, status, claim_at, version, attempts,
  rescues, last_error, deferred_queue, create_time, update_time)
 VALUES('c', %(num)s, %(when)s, %(ext)s, 'default', 0, 0, GREATEST(%(when)s, UTC_TIMESTAMP(6)), 1, 0, 0, '', '',
  UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"""
# Assignments are made from left to right, so status comes last.
REPLACE = """deferred_when = IF(status = 1, %(when)s, NULL), deferred_biz_ext = IF(status = 1, %(ext)s, NULL),
  deferred_queue = IF(status = 1, 'default', ''), deferred_priority = IF(status = 1, 0, NULL),
  cancel_requested_at = NULL, update_time = UTC_TIMESTAMP(6), when_time = IF(status = 1, when_time, %(when)s),
  biz_ext = IF(status = 1, biz_ext, %(ext)s), attempts = IF(status = 1, attempts, 0),
  rescues = IF(status = 1, rescues, 0), last_error = IF(status = 1, last_error, ''),
  version = IF(status = 1, version, version + 1),
  claim_at = IF(status = 1, claim_at, GREATEST(%(when)s, UTC_TIMESTAMP(6))), status = IF(status = 1, 1, 0)"""
BY_IDENTITY = f"UPDATE task SET id = LAST_INSERT_ID(id), {REPLACE} WHERE biz_code = 'c' AND biz_num = %(num)s"
BY_KEY = f"""UPDATE task SET {REPLACE} WHERE id =
  (SELECT id FROM (SELECT id FROM task WHERE biz_code = 'c' AND biz_num = %(num)s) AS found)"""
UPSERT = f"INSERT {INSERT} ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), {REPLACE}"

CANDIDATES = """SELECT id, version FROM task WHERE status = 0 AND queue = 'default' AND priority = 0
 AND claim_at <= UTC_TIMESTAMP(6) ORDER BY claim_at, id LIMIT 100"""
# Without the hint a small table is read through the claim index, whose rows other threads move: deadlocks.
CLAIM = """UPDATE task FORCE INDEX (PRIMARY)
 SET status = 1, version = version + 1, attempts = attempts + 1, executor = 1 WHERE status = 0 AND {}"""
REMOVE = "DELETE task FROM task FORCE INDEX (PRIMARY) WHERE status = 1 AND deferred_when IS NULL AND {}"
REARM = """UPDATE task FORCE INDEX (PRIMARY) SET when_time = deferred_when, claim_at = deferred_when,
 biz_ext = deferred_biz_ext, deferred_when = NULL, deferred_biz_ext = NULL,
 status = 0, version = version + 1 WHERE status = 1 AND {}"""

PAST, FUTURE = "2020-01-01 00:00:00", "2040-01-01 00:00:00"

Cursor = Any
Way = Callable[[Cursor, dict[str, Any]], None]
counts: Counter[str] = Counter()  # incremented under the interpreter lock; a lost increment would not matter


def upsert(cursor: Cursor, task: dict[str, Any]) -> None:
    cursor.execute(UPSERT, task)


def update_insert_update(cursor: Cursor, task: dict[str, Any]) -> None:
    while not cursor.execute(BY_IDENTITY, task):
        try:
            cursor.execute(f"INSERT {INSERT}", task)
            return
        except MySQLdb.IntegrityError:
            counts["duplicate"] += 1


def ignore_update(cursor: Cursor, task: dict[str, Any]) -> None:
    while not cursor.execute(f"INSERT IGNORE {INSERT}", task):
        counts["duplicate"] += 1
        if cursor.execute(BY_IDENTITY, task):
            return


def update_upsert(cursor: Cursor, task: dict[str, Any]) -> None:
    if not cursor.execute(BY_IDENTITY, task):
        cursor.execute(UPSERT, task)


def key_update_upsert(cursor: Cursor, task: dict[str, Any]) -> None:
    if not cursor.execute(BY_KEY, task):
        cursor.execute(UPSERT, task)


WAYS: dict[str, Way] = {
    "a  upsert": upsert,
    "b  update, insert, update": update_insert_update,
    "c  insert ignore, update": ignore_update,
    "d  update, upsert": update_upsert,
    "e  update by key, upsert": key_update_upsert,
}


def adder(cursor: Cursor, way: Way, tasks: Iterator[tuple[str, str]], in_transaction: bool, until: float) -> None:
    """Add tasks until the deadline; the victim of a deadlock loses its transaction and continues."""
    while time.monotonic() < until:
        num, when = next(tasks)
        task = {"num": num, "when": when, "ext": '{"a": 1}'}
        try:
            if in_transaction:
                cursor.execute("BEGIN")
                cursor.execute("INSERT INTO orders(num) VALUES (%(num)s)", task)
            way(cursor, task)
            if in_transaction:
                cursor.execute("COMMIT")
            counts["calls"] += 1
        except MySQLdb.OperationalError as error:
            count_conflict("", error)
            cursor.execute("ROLLBACK")


def executor(cursor: Cursor, until: float) -> None:
    """Claim a batch, then remove it (or re-arm what was added meanwhile), as an executor does."""
    while time.monotonic() < until:
        try:
            cursor.execute(CANDIDATES)
            rows = cursor.fetchall()
            if not rows:
                time.sleep(0.002)
                continue
            counts["claimed"] += cursor.execute(CLAIM.format(pairs(rows)))
            time.sleep(0.001)
            mine = pairs([(key, version + 1) for key, version in rows])
            cursor.execute("BEGIN")
            if cursor.execute(REMOVE.format(mine)) < len(rows):
                cursor.execute(REARM.format(mine))
            cursor.execute("COMMIT")
        except MySQLdb.OperationalError as error:
            count_conflict("executor ", error)
            cursor.execute("ROLLBACK")


def pairs(rows: Any) -> str:
    """A condition that names every row by key, so that the primary key is used, and by version."""
    ids = ",".join(str(key) for key, _ in rows)
    both = " OR ".join(f"id = {key} AND version = {version}" for key, version in rows)
    return f"id IN ({ids}) AND ({both})"


def count_conflict(prefix: str, error: MySQLdb.OperationalError) -> None:
    if error.args[0] not in (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT):
        raise error
    counts[f"{prefix}{error.args[0]}"] += 1


def tasks_of(kind: str, thread: int, identities: int) -> Iterator[tuple[str, str]]:
    """Numbers and times. hot: few identities that stay pending; churn: few that are due; fresh: each its own, due."""
    number = 0
    while True:
        number += 1
        if kind == "fresh":  # neighbours in the index come from many threads
            yield f"{number * 7919 % 100_003:06}-{number}-{thread}", PAST
        else:
            yield f"hot-{random.randrange(identities)}", FUTURE if kind == "hot" else PAST


def measure(options: argparse.Namespace, way: Way, kind: str, in_transaction: bool) -> dict[str, Any]:
    """One run of one way: the counts, calls per second and auto-increment values per row that was created."""
    counts.clear()
    admin = connect(options)
    for statement in ("DROP TABLE IF EXISTS task, orders", TASK, ORDERS):
        admin.execute(statement)
    until = time.monotonic() + options.seconds
    threads = [threading.Thread(target=executor, args=(connect(options), until))]
    for number in range(options.threads):
        tasks = tasks_of(kind, number, options.identities)
        threads.append(threading.Thread(target=adder, args=(connect(options), way, tasks, in_transaction, until)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {**counts, "rate": counts["calls"] / options.seconds, "used": next_key(admin) - 1}


def next_key(cursor: Cursor) -> int:
    """Return the key that the next task gets. MySQL shows no counter until a row was added."""
    cursor.execute("SHOW CREATE TABLE task")
    shown = re.search(r"AUTO_INCREMENT=(\d+)", cursor.fetchone()[1])
    return int(shown[1]) if shown else 1


def connect(options: argparse.Namespace) -> Cursor:
    connection = MySQLdb.connect(
        host=options.host, port=options.port, user=options.user, password=options.password,
        client_flag=CLIENT.FOUND_ROWS, autocommit=True, charset="utf8mb4",
    )  # fmt: skip
    cursor = connection.cursor()
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {options.database}")
    cursor.execute(f"USE {options.database}")
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return cursor


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare ways to add a task under concurrency.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3306)
    parser.add_argument("--user", default="root")
    parser.add_argument("--password", default="")
    parser.add_argument("--database", default="ddt_compare")
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--identities", type=int, default=20, help="how many identities are hot")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--kinds", default="hot,churn,fresh", help="of identities, see tasks_of")
    parser.add_argument("--only", default="", help="letters of the ways to try, such as ad")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    admin = connect(options)
    admin.execute("SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_autoinc_lock_mode, @@log_bin")
    print("server, flush at commit, autoinc mode, binary log:", admin.fetchone())
    print("| identities | transaction | way | calls/s | 1213 | 1205 | 1062 | executor 1213 | claimed | ids used |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    ways = {name: way for name, way in WAYS.items() if not options.only or name[0] in options.only}
    for kind in options.kinds.split(","):
        for in_transaction in (False, True):
            for name, way in ways.items():
                got = Counter(measure(options, way, kind, in_transaction))
                cells = [kind, "caller's" if in_transaction else "autocommit", name, f"{got['rate']:,.0f}"]
                keys = ("1213", "1205", "duplicate", "executor 1213", "claimed", "used")
                print("|", " | ".join(cells + [f"{got[key]:,}" for key in keys]), "|", flush=True)


if __name__ == "__main__":
    main()
