"""MariaDB and MySQL: limits with threads and statements and nothing else. A slot is a running row, so none can leak.

One thread claims as many tasks as there are slots free, under the lock of a row of the lane, and marks those whose key
has none. Another settles in natural batches and hands the slots of a batch on to the next tasks, in its transaction.
"""

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.benchmarks.floors.lean import MAX_SETTLEMENT, Row
from harness.benchmarks.floors.lean_mysql import RECORD, RUN, TASK, _cursor, _ids

LANE = "CREATE TABLE lean_lane(name VARCHAR(50) PRIMARY KEY) ENGINE=InnoDB"
COLUMNS = "SELECT id, version + 1, slot_key FROM lean_task"
ORDER = "ORDER BY claim_at, id LIMIT %s"
OPEN = f"{COLUMNS} WHERE status = 0 AND queue = 'default' AND priority = 0 AND claim_at <= UTC_TIMESTAMP(6) {ORDER}"
NEXT_OF_KEYS = f"""{COLUMNS} WHERE id IN (SELECT MIN(id) FROM lean_task WHERE status = 3 AND slot_key IN (%s)
 GROUP BY slot_key)"""
TAKE = """UPDATE lean_task SET status = 1, version = version + 1, attempts = attempts + 1, executor = 'me'
 WHERE id IN (%s)"""
HELD = "SELECT slot_key, COUNT(*) FROM lean_task WHERE status = 1 GROUP BY slot_key"
REMOVE = "DELETE FROM lean_task WHERE id IN (%s) AND status = 1 AND executor = 'me'"
READ = 1000
"""Tasks whose keys are looked at in one claim."""


class Program:
    """The claims, the runs and the settlements of one process."""

    def __init__(self, entry: dict[str, Any], threads: int, slots: int, keys: int, work: float) -> None:
        self.claimer, self.settler = _cursor(entry), _cursor(entry)
        self.threads, self.slots, self.keys, self.work = threads, slots, keys, work
        self.todo: queue.SimpleQueue[Row] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[Row] = queue.SimpleQueue()
        self.freed, self.ended = threading.Event(), threading.Event()
        self.held = self.ran = self.statements = 0

    def send(self, cursor: Any, sql: str, parameters: Any = None) -> Sequence[Row]:
        """Execute a statement and count it, unless it begins or ends a transaction."""
        self.statements += sql not in ("BEGIN", "COMMIT")
        cursor.execute(sql, parameters)
        return cursor.fetchall()  # type: ignore[no-any-return]

    def run(self, seconds: float) -> dict[str, Any]:
        """Run for so long; return the number of runs and of statements."""
        for target in [*[self._work] * self.threads, self._settle_all]:
            threading.Thread(target=target, daemon=True).start()
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self.freed.clear()
            if not self._claim():
                self.freed.wait(0.05)
        took = time.monotonic() - began
        self.ended.set()
        return {"runs": self.ran, "seconds": took, "statements": self.statements}

    def _work(self) -> None:
        while True:
            row = self.todo.get()
            started = time.time()
            time.sleep(self.work)
            self.done.put((row[0], row[1], started, time.time(), row[2]))

    def _claim(self) -> bool:
        room = 2 * self.threads - self.held
        if room <= 0:
            return False
        self.send(self.claimer, "BEGIN")
        self.send(self.claimer, "SELECT name FROM lean_lane WHERE name = 'l' FOR UPDATE")
        held: Counter[str] = Counter({key: count for key, count in self.send(self.claimer, HELD)})  # noqa: C416
        most = READ if self.keys else max(0, min(room, self.slots - held[""]))
        rows, blocked = self._chosen(self.send(self.claimer, OPEN, (most,)), held, room)
        if rows:
            self.send(self.claimer, TAKE % _ids(rows))
        if blocked:
            self.send(self.claimer, f"UPDATE lean_task SET status = 3 WHERE id IN ({_ids(blocked)})")
        self.send(self.claimer, "COMMIT")
        self._start(rows, ended=0)
        return bool(rows or blocked)

    def _chosen(self, found: Sequence[Row], held: Counter[str], room: int) -> tuple[list[Row], list[Row]]:
        rows: list[Row] = []
        blocked: list[Row] = []
        for row in found:
            if held[row[2]] >= self.slots:
                blocked.append(row)
            elif len(rows) < room:
                held[row[2]] += 1
                rows.append(row)
        return rows, blocked

    def _settle_all(self) -> None:
        while not self.ended.is_set():
            finished = [self.done.get()]
            while len(finished) < MAX_SETTLEMENT and not self.done.empty():
                finished.append(self.done.get())
            self._settle(finished)

    def _settle(self, finished: list[Row]) -> None:
        self.send(self.settler, "BEGIN")
        self.send(self.settler, RECORD, (json.dumps([row[:4] for row in finished]),))
        self.send(self.settler, REMOVE % _ids(finished))
        keys = ",".join(f"'{row[4]}'" for row in finished)
        rows = (
            self.send(self.settler, NEXT_OF_KEYS % keys)
            if self.keys
            else self.send(self.settler, OPEN, (len(finished),))
        )
        if rows:
            self.send(self.settler, TAKE % _ids(rows))
        self.send(self.settler, "COMMIT")
        self.ran += len(finished)
        self._start(rows, len(finished))

    def _start(self, rows: Sequence[Row], ended: int) -> None:
        self.held += len(rows) - ended
        for row in rows:
            self.todo.put(row)
        if len(rows) < ended:
            self.freed.set()


def fill(entry: dict[str, Any], tasks: int, keys: int) -> None:
    """Create the tables again, with ``tasks`` due tasks that have ``keys`` different keys, or no keys if that is 0."""
    cursor = _cursor(entry)
    keyed = TASK.replace("UNIQUE(", "slot_key VARCHAR(50) NOT NULL DEFAULT '', INDEX keyed(status, slot_key), UNIQUE(")
    for statement in ("DROP TABLE IF EXISTS lean_task, lean_run, lean_lane", keyed, RUN, LANE):
        cursor.execute(statement)
    cursor.execute("INSERT INTO lean_lane VALUES ('l')")
    for start in range(0, tasks, 2000):
        rows = [(f"d{number}", str(number % keys) if keys else "") for number in range(start, min(tasks, start + 2000))]
        cursor.executemany(
            "INSERT INTO lean_task(biz_code, biz_num, when_time, claim_at, slot_key)"
            " VALUES('c', %s, UTC_TIMESTAMP(6) + INTERVAL -1 DAY, UTC_TIMESTAMP(6) + INTERVAL -1 DAY, %s)",
            rows,
        )
    cursor.execute("ANALYZE TABLE lean_task")
    cursor.fetchall()
