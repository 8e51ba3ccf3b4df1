"""One executor that runs what is due and ends: ``drain [OPTION=VALUE …]``, options as in settings, in lower case."""

import ast
import sys
from collections.abc import Sequence
from typing import Any

import django

from harness.benchmarks.programs.together import begin_together


def executor_with(options: dict[str, Any]) -> Any:
    """An executor that is to end when nothing is due."""
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings

    return Executor(from_settings(drain=True, **options))


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the options that the words ``OPTION=VALUE`` give."""
    parts = (word.partition("=") for word in words)
    return {name: ast.literal_eval(value) for name, _, value in parts}


def drain(executor: Any) -> int:
    """Drain; return how many tasks the executor has run, from its start to its last settlement."""
    executor.start()
    executor.drained.wait()
    return int(executor.held.settled)


if __name__ == "__main__":
    django.setup()
    executor = executor_with(options_of(sys.argv[1:]))
    begin_together(lambda: drain(executor), executor.stop)
