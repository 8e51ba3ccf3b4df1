"""Crash suspects: tasks that were rescued from dead executors more than once, one of which may be what crashes them.

While a suspect runs, no other task that was ever rescued runs in its process, however long that takes. Otherwise the
one that crashes would take the same innocent tasks down with it until their rescues are used up.
"""

from collections.abc import Iterable

SUSPECT = 2
"""Rescues after which a task is a suspect, or ``MAX_RESCUES`` if that is fewer. A first rescue has no consequences: in
most cases the machine was the cause.
"""


def rescues_below(running: Iterable[int], max_rescues: int) -> int | None:
    """Return the number of rescues from which on no task may run together with these; None if any task may."""
    most = max(running, default=0)
    suspect = max(1, min(SUSPECT, max_rescues))
    return None if not most else 1 if most >= suspect else suspect
