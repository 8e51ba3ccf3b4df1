"""Durations as the rollup keeps them: a histogram, a sum and a maximum."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django_delayed_tasks.models.rollups import BOUNDS


@dataclass(frozen=True, slots=True)
class Durations:
    """Many durations. ``buckets`` are their numbers up to each of ``BOUNDS``, and above the last of these."""

    buckets: Sequence[int]
    sum: timedelta
    longest: timedelta

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(self.buckets)

    @property
    def mean(self) -> timedelta | None:
        """The mean; None if there are none."""
        return self.sum / self.count if self.count else None

    def percentile(self, percent: float) -> timedelta | None:
        """Return the duration that ``percent`` of them do not exceed; None if there are none.

        It is estimated within its bucket, and never longer than the longest.
        """
        wanted, below, lower = percent / 100 * self.count, 0, timedelta()
        for count, upper in zip(self.buckets, (*BOUNDS, max(self.longest, BOUNDS[-1])), strict=True):
            if count and below + count >= wanted:
                return min(lower + (upper - lower) * max(0.0, wanted - below) / count, self.longest)
            below, lower = below + count, upper
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the figures in seconds, for JSON."""
        figures = {
            "mean": self.mean,
            "p50": self.percentile(50),
            "p95": self.percentile(95),
            "p99": self.percentile(99),
        }
        found = {name: None if value is None else round(value.total_seconds(), 6) for name, value in figures.items()}
        return {"count": self.count, **found, "longest": round(self.longest.total_seconds(), 6)}
