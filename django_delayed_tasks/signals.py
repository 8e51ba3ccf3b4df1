"""Django signals sent by an executor. Receivers run in the thread that sends; their exceptions are logged."""

from django.dispatch import Signal

run_started = Signal()
"""Sent before ``handle``; arguments: ``task`` (ClaimedTask), ``handler``."""

run_finished = Signal()
"""Sent after ``handle``; arguments: ``task``, ``handler``, ``decision`` (what will be settled), ``exception``.

``exception`` is what ended the run, or None.
"""

task_failed = Signal()
"""Sent when a task has become FAILED; arguments: ``task``, ``error`` (text), ``exception``.

``exception`` is what ended the last run; None if it returned ``Fail`` or ``Retry``, or its executor died.
"""
