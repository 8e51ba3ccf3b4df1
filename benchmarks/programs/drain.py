"""One executor that runs what is due and ends: ``drain [OPTION=VALUE …]``, options as in settings, in lower case."""

import ast
import sys
from typing import Any

import django

from benchmarks.programs.together import begin_together


def drain(**options: Any) -> int:
    """How many tasks it has run, from its start to its last settlement."""
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings

    executor = Executor(from_settings(drain=True, **options))
    executor.start()
    executor.drained.wait()
    executor.stop()
    return executor.inflight.settled


if __name__ == "__main__":
    django.setup()
    options = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in sys.argv[1:])}
    begin_together(lambda: drain(**options))
