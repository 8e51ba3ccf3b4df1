"""``idle WARM_UP SECONDS``: ``starttask`` in this process; what it sends and what it costs after the warm-up."""

import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import django
from django.core.management import call_command
from django.db import connection
from django.db.backends.signals import connection_created

OWN = "SHOW GLOBAL STATUS LIKE 'Questions'"


class Sent:
    """The statements of all connections of this process, shortened, those that begin and end transactions included."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def follow(self, connection: Any, **_: Any) -> None:
        """Note what it sends from now on."""
        if self not in connection.execute_wrappers:
            connection.execute_wrappers.append(self)
            for name in ("commit", "rollback"):
                setattr(connection, f"_{name}", self._noting(getattr(connection, f"_{name}"), name.upper()))
            connection._set_autocommit = self._noting_autocommit(connection)

    def __call__(self, execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql != OWN:
            self.statements.append(shortened(sql))
        return execute(sql, parameters, many, context)

    def _noting(self, method: Callable[[], Any], text: str) -> Callable[[], Any]:
        def noting() -> Any:
            self.statements.append(text)
            return method()

        return noting

    def _noting_autocommit(self, connection: Any) -> Callable[[bool], Any]:
        method = connection._set_autocommit

        def noting(is_on: bool) -> Any:
            # PostgreSQL's driver sends BEGIN before the next statement, and nothing when it is set again.
            if not is_on or connection.vendor == "mysql":
                self.statements.append(f"SET autocommit = {int(is_on)}" if connection.vendor == "mysql" else "BEGIN")
            return method(is_on)

        return noting


def shortened(sql: str) -> str:
    """Without the numbers that differ."""
    return re.sub(r"\d+", "0", " ".join(sql.split()))[:100]


def measure(sent: Sent, warm_up: float, seconds: float) -> dict[str, Any]:
    """Count statements and CPU time while the executor runs in another thread."""
    time.sleep(warm_up)
    first, began, cpu, questions = len(sent.statements), time.monotonic(), time.process_time(), asked()
    time.sleep(seconds)
    last, took, cpu = len(sent.statements), time.monotonic() - began, time.process_time() - cpu
    # The first look at the counter is itself counted in the second.
    by_server = (asked() - questions - 1) / took if questions else None
    counts = Counter(sent.statements[first:last])
    per_second = {statement: count / took for statement, count in counts.most_common()}
    return {"statements": per_second, "by_server": by_server, "percent_of_core": 100 * cpu / took}


def asked() -> int:
    """Statements that the server has had of all its clients; 0 where no server counts them."""
    if connection.vendor != "mysql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(OWN)
        return int(cursor.fetchone()[1])


def main(warm_up: float, seconds: float) -> None:
    """The executor has the main thread, as it has from the command line."""
    sent = Sent()
    connection_created.connect(sent.follow)
    answers: list[dict[str, Any]] = []

    def look_and_stop() -> None:
        try:
            answers.append(measure(sent, warm_up, seconds))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look_and_stop).start()
    call_command("starttask", skip_checks=True)
    print("\n" + json.dumps(answers[0]))


if __name__ == "__main__":
    django.setup()
    main(*map(float, sys.argv[1:]))
