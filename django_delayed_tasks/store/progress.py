"""What a run says of its progress: fenced as every write that follows from a claim."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import NOTE_LENGTH
from django_delayed_tasks.store.dialects import dialect_of
from django_delayed_tasks.store.fences import Claim, fence, in_status
from django_delayed_tasks.store.tables import RUNNING, TASK
from django_delayed_tasks.store.transactions import atomically


class Report(NamedTuple):
    """How far a run is: ``fraction`` from 0 to 1, ``note`` for people."""

    fraction: float
    note: str


def report_of(fraction: Any, note: Any) -> Report:
    """A report that can be written; InvalidTask for what cannot be one."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        raise InvalidTask("fraction", fraction, "expected a number from 0 to 1")
    if not isinstance(note, str):
        raise InvalidTask("note", note, "expected a text")
    clean = note.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return Report(float(fraction), clean[:NOTE_LENGTH])


def write_progress(alias: str, reports: Mapping[Claim, Report]) -> set[Claim]:
    """Write the reports of these claims, in one transaction; the claims that were still held."""
    now = dialect_of(connections[alias]).now

    def write(cursor: CursorWrapper) -> set[Claim]:
        held = set()
        for claim, report in sorted(reports.items()):
            cursor.execute(
                f"UPDATE {TASK} SET progress_fraction = %s, progress_note = %s, progress_at = {now}"
                f" WHERE {fence([claim])} AND {in_status(RUNNING)}",
                [report.fraction, report.note],
            )
            if cursor.rowcount:
                held.add(claim)
        return held

    return atomically(alias, write)
