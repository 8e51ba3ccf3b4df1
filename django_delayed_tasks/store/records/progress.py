"""Progress reports of runs: written to the task's row, fenced as every write that follows from a claim."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import NOTE_LENGTH
from django_delayed_tasks.store.sql.charsets import in_ascii, without_unstorable
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import OF_CLAIM, Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically


class Report(NamedTuple):
    """The progress of a run: ``fraction`` from 0 to 1, and a ``note`` for people to read."""

    fraction: float
    note: str


def report_of(fraction: Any, note: Any) -> Report:
    """Return a report that can be written.

    Raises:
        InvalidTask: the fraction is not a number from 0 to 1, or the note is not a str.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        raise InvalidTask("fraction", fraction, "expected a number from 0 to 1")
    if not isinstance(note, str):
        raise InvalidTask("note", note, "expected a text")
    return Report(float(fraction), without_unstorable(note)[:NOTE_LENGTH])


class ReportResult(NamedTuple):
    """The result of writing reports: claims whose rows are locked by another transaction, and claims that are gone."""

    waiting: set[Claim]
    lost: set[Claim]


def write_progress(alias: str, reports: Mapping[Claim, Report]) -> ReportResult:
    """Write the reports of these claims, without waiting for rows that other transactions have locked."""
    return atomically(alias, lambda cursor: _write(cursor, dialect_of(connections[alias]), reports))


def _write(cursor: CursorWrapper, dialect: Dialect, reports: Mapping[Claim, Report]) -> ReportResult:
    dialect.begin_writing(cursor, TASK)
    held = f"SELECT {OF_CLAIM} FROM {TASK} WHERE {fence(reports)} AND {in_status(RUNNING)}"
    cursor.execute(f"{held} ORDER BY id{dialect.skip_locked}")
    free = set(map(Claim._make, cursor.fetchall()))
    cursor.execute(held)
    waiting = set(map(Claim._make, cursor.fetchall())) - free
    for claim in sorted(free):
        report = reports[claim]
        note = report.note if dialect.holds_all_texts else in_ascii(report.note)[:NOTE_LENGTH]
        cursor.execute(
            f"UPDATE {TASK} SET progress_fraction = %s, progress_note = %s, progress_at = {dialect.now}"
            f" WHERE {fence([claim])}",
            [report.fraction, note],
        )
    return ReportResult(waiting, reports.keys() - free - waiting)
