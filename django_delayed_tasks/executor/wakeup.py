"""Wakes the executors of this process when a task was committed in it. A hint: polling alone would do."""

from threading import Event, Lock

_lock = Lock()
_sleepers: set[Event] = set()


def wake() -> None:
    """Every executor of this process looks for due tasks now."""
    with _lock:
        for sleeper in _sleepers:
            sleeper.set()


def enlist(sleeper: Event) -> None:
    """From now on :func:`wake` sets this event."""
    with _lock:
        _sleepers.add(sleeper)


def dismiss(sleeper: Event) -> None:
    """No more."""
    with _lock:
        _sleepers.discard(sleeper)
