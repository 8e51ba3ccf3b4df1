"""Django signals. Receivers run in the thread that sends; their exceptions are logged, and change nothing.

Nothing is computed for a signal without receivers.
"""

from django.dispatch import Signal

task_added = Signal()
"""Sent when a task has been added, once that is committed, in the process of the caller.

Arguments: ``biz_code``, ``biz_num``, ``when`` (as it was given), ``queue``, ``using``, and ``result``: the
``AddResult``, or None if many were added in one call. It is not sent for a task that was kept or filtered, nor where
autocommit is off.
"""

task_claimed = Signal(use_caching=True)
"""Sent for each task that an executor has claimed, in the thread that claims; arguments: ``task`` (ClaimedTask)."""

run_started = Signal(use_caching=True)
"""Sent before ``handle``; arguments: ``task`` (ClaimedTask), ``handler``."""

run_finished = Signal(use_caching=True)
"""Sent after ``handle``; arguments: ``task``, ``handler``, ``decision`` (how the run is settled), ``exception``.

``exception`` is what ended the run, or None.
"""

task_failed = Signal()
"""Sent when a task has become FAILED; arguments: ``task``, ``error`` (text), ``exception``.

``exception`` is what ended the last run; None if it returned ``Fail`` or ``Retry``, or its executor died.
"""

tasks_reaped = Signal()
"""Sent when tasks were taken from dead executors; arguments: ``codes`` and ``executors``, with the number of tasks of
each code, and of each dead executor by its id.
"""

executor_started = Signal()
"""Sent when an executor has started, in the thread that started it; arguments: ``executor`` (its id), ``name``."""

executor_stopped = Signal()
"""Sent when an executor has stopped; arguments: ``executor``, ``name``, ``is_clean`` (no task was left behind)."""
