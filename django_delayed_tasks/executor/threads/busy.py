"""Measures how long a call has taken so far, to be read by another thread."""

from types import TracebackType

from django_delayed_tasks import clock


class Busy:
    """A stopwatch that one thread enters as a context manager; other threads read :meth:`seconds`."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = clock.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._began = None

    def seconds(self) -> float:
        """Return the seconds since it was entered; 0 if it is not entered now."""
        began = self._began
        return 0.0 if began is None else clock.monotonic() - began
