"""What is to be reached, as ratios of figures of one run (or, for few, as figures)."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.benchmarks.figures import Figure, Figures


@dataclass(frozen=True)
class Goal:
    """``of``, divided by the greatest of ``to`` (by nothing, when that is empty), is at least or at most ``bound``.

    ``unit`` is what the result is shown in: "×" for a ratio.
    """

    row: str
    of: Figure
    bound: float
    to: tuple[Figure, ...] = ()
    is_most: bool = False

    @property
    def unit(self) -> str:
        return "×" if self.to else self.of.unit

    def value(self, figures: Figures) -> float | None:
        """Return the figure or ratio that was reached; None if it, or what it is compared with, was not measured."""
        of = figures.spread(self.of)
        others = [spread.median for figure in self.to if (spread := figures.spread(figure))]
        if of is None or (self.to and not others):
            return None
        return of.median / max(others) if self.to else of.median

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.is_most else value >= self.bound


def measured(goals: Iterable[Goal], figures: Figures) -> list[tuple[Goal, float]]:
    """Return the goals that have figures, each with what was measured."""
    return [(goal, value) for goal in goals if (value := goal.value(figures)) is not None]
