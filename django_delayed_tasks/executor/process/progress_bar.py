"""The progress bar that a person sees while an executor drains, or the history is pruned."""

import sys
from typing import TextIO

from django_delayed_tasks import clock
from django_delayed_tasks.support.plural import plural

WIDTH = 30


class ProgressBar:
    """A progress bar on a terminal; on any other stream nothing is written until :meth:`close`.

    ``verb`` begins its last line.
    """

    def __init__(self, total: int, stream: TextIO | None = None, verb: str = "Drained") -> None:
        self._total = total
        self._verb = verb
        self._stream = stream or sys.stdout
        self._began = clock.monotonic()
        self._is_terminal = self._stream.isatty()

    def show(self, done: int) -> None:
        """Draw the bar, with ``done`` runs."""
        if self._is_terminal:
            self._total = max(self._total, done)
            part = done / self._total if self._total else 1.0
            bar = "#" * round(part * WIDTH)
            self._stream.write(f"\r[{bar:<{WIDTH}}] {done:,} of {self._total:,}, {self._rate(done):,.0f}/s ")
            self._stream.flush()

    def close(self, done: int) -> None:
        """Write the last line, with ``done`` runs."""
        if self._is_terminal:
            self.show(done)
            self._stream.write("\n")
        seconds = clock.monotonic() - self._began
        self._stream.write(f"{self._verb}: {done:,} {plural(done, 'run')} in {seconds:.1f} s.\n")
        self._stream.flush()

    def _rate(self, done: int) -> float:
        return done / max(clock.monotonic() - self._began, 0.001)
