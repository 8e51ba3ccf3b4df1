"""Django signals around a run and a task. Receivers run in the thread that sends; an exception of theirs is logged."""

from django.dispatch import Signal

run_started = Signal()
"""Sent before ``handle``; arguments: ``task`` (ClaimedTask), ``handler``."""

run_finished = Signal()
"""Sent after ``handle``; arguments: ``task``, ``handler``, ``decision`` (what will be settled)."""

task_failed = Signal()
"""Sent when a task became FAILED; arguments: ``task``, ``error`` (text)."""
