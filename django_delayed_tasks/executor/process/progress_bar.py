"""The progress bar that a person sees while an executor drains, or the history is pruned."""

import sys
from collections.abc import Callable
from typing import TextIO

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks import clock

WIDTH = 30
"""Characters of the bar: its line fits a terminal of 80 columns."""


def drained(count: int, failed: int = 0, retried: int = 0) -> str:
    """Return the last line for this number of runs, with a place for the seconds that they took.

    ``failed`` and ``retried`` are how many of them did not end well.
    """
    if retried:
        line = ngettext(
            "Drained: %(runs)s run, %(failed)s failed, %(retried)s retried, in %(seconds)s s.",
            "Drained: %(runs)s runs, %(failed)s failed, %(retried)s retried, in %(seconds)s s.",
            count,
        )
    elif failed:
        line = ngettext(
            "Drained: %(runs)s run, %(failed)s failed, in %(seconds)s s.",
            "Drained: %(runs)s runs, %(failed)s failed, in %(seconds)s s.",
            count,
        )
    else:
        line = ngettext("Drained: %(runs)s run in %(seconds)s s.", "Drained: %(runs)s runs in %(seconds)s s.", count)
    for name, value in (("runs", count), ("failed", failed), ("retried", retried)):
        line = line.replace(f"%({name})s", f"{value:,}")
    return line


class ProgressBar:
    """A progress bar on a terminal; on any other stream nothing is written until :meth:`close`.

    ``ended`` returns its last line, as :func:`drained` does.
    """

    def __init__(self, total: int, stream: TextIO | None = None, ended: Callable[[int], str] = drained) -> None:
        self._total = total
        self._ended = ended
        self._stream = stream or sys.stdout
        self._began = clock.monotonic()
        self._is_terminal = self._stream.isatty()

    def show(self, done: int) -> None:
        """Draw the bar, with ``done`` runs."""
        if self._is_terminal:
            self._total = max(self._total, done)
            part = done / self._total if self._total else 1.0
            bar = "#" * round(part * WIDTH)
            values = {"done": f"{done:,}", "total": f"{self._total:,}", "rate": f"{self._rate(done):,.0f}"}
            text = _("%(done)s of %(total)s, %(rate)s/s") % values
            self._stream.write(f"\r[{bar:<{WIDTH}}] {text} ")
            self._stream.flush()

    def close(self, done: int) -> None:
        """Write the last line, with ``done`` runs."""
        if self._is_terminal:
            self.show(done)
            self._stream.write("\n")
        seconds = clock.monotonic() - self._began
        line = self._ended(done) % {"runs": f"{done:,}", "seconds": f"{seconds:.1f}"}
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def _rate(self, done: int) -> float:
        return done / max(clock.monotonic() - self._began, 0.001)
