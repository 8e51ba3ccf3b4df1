"""Add each task through one node and cancel it through another: ``through_nodes ROUNDS``.

BENCH_OTHER has the URL of the other node, or of the same server. Prints the median seconds of each call, what each
sends, and how many tasks were not found.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django

CODE, LATER, WARM_UP = "nothing", timedelta(hours=1), 20


class Timed:
    """One call through one connection, timed again and again."""

    def __init__(self, alias: str, call: Callable[[int], Any]) -> None:
        from django.db import connections

        from harness.benchmarks.counts import Counts

        self._call = call
        self._counts = Counts()
        self._counts.watch(connections[alias])
        self._sent = 0
        self._seconds: list[float] = []

    def __call__(self, number: int) -> Any:
        """Call, and note how long it took."""
        if number == WARM_UP:
            self._sent, self._seconds = self._counts.statements, []
        began = time.perf_counter()
        result = self._call(number)
        self._seconds.append(time.perf_counter() - began)
        return result

    def figures(self) -> dict[str, float]:
        """Return the median in seconds, and the statements of one call."""
        sent = self._counts.statements - self._sent
        return {"seconds": statistics.median(self._seconds), "statements": sent / len(self._seconds)}


def main(rounds: int) -> dict[str, Any]:
    """Measure ``rounds`` of them after a warm-up."""
    from django_delayed_tasks import CancelResult, Task, add_task, cancel_task

    add = Timed("default", lambda number: add_task(Task(biz_code=CODE, biz_num=str(number), when=LATER)))
    cancel = Timed("other", lambda number: cancel_task(CODE, str(number), using="other"))
    missing = 0
    for number in range(WARM_UP + rounds):
        add(number)
        missing += cancel(number) is CancelResult.MISSING
    return {"add": add.figures(), "cancel": cancel.figures(), "missing": missing}


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main(int(sys.argv[1]))))
