"""Several processes begin at one moment: each says that it is ready and waits for a word."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any


def begin_together(work: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> None:
    """Call ``work()`` when told so; print when it began and ended (monotonic seconds), and what it returned.

    ``after()`` is called then, and not measured.
    """
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu = time.monotonic(), time.process_time()
    result = work()
    ended, cpu = time.monotonic(), time.process_time() - cpu
    after()
    print(json.dumps({"began": began, "ended": ended, "cpu": cpu, "result": result}))


def seconds_of(answers: Iterable[dict[str, Any]]) -> float:
    """Return the seconds from the first begin to the last end."""
    answers = list(answers)
    return float(max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers))
