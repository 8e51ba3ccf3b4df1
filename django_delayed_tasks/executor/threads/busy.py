"""How long a call has been waiting for the database, as another thread sees it."""

from types import TracebackType

from django_delayed_tasks import clock


class Busy:
    """A context manager for one thread at a time; :meth:`seconds` is for the others."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = clock.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._began = None

    def seconds(self) -> float:
        """Since it was entered; 0 outside."""
        began = self._began
        return 0.0 if began is None else clock.monotonic() - began
