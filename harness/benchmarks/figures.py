"""What was measured: figures and the values that they had, run after run."""

import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

PRODUCT, LEAN, RAW = "django-delayed-tasks", "lean pipeline", "raw SQL"
BEFORE = "before lanes"
"""The subject of figures of the code before limited tasks waited in lanes."""


class Figure(NamedTuple):
    """The name of one figure: what ``subject`` did in ``case``, in which ``variant``, on which ``database``."""

    case: str
    database: str
    subject: str
    variant: str
    unit: str


class Spread(NamedTuple):
    """A median between the lowest and the highest value."""

    median: float
    lowest: float
    highest: float


class Figures:
    """All values of one run of the suite, in the order in which they came; and why some subjects have none.

    ``missing`` has the reasons, by case, database and subject.
    """

    def __init__(self, values: dict[Figure, list[float]] | None = None) -> None:
        self.values: dict[Figure, list[float]] = values or {}
        self.missing: dict[tuple[str, str, str], str] = {}

    def note(self, figure: Figure, value: float) -> None:
        """Add a value."""
        self.values.setdefault(figure, []).append(value)

    def spread(self, figure: Figure) -> Spread | None:
        """Return the spread of all its values, or None if there is no value."""
        values = self.values.get(figure)
        return Spread(statistics.median(values), min(values), max(values)) if values else None

    def merge(self, other: "Figures") -> None:
        """Add all values of another run."""
        for figure, values in other.values.items():
            self.values.setdefault(figure, []).extend(values)
        self.missing |= other.missing

    def of_case(self, case: str) -> list[Figure]:
        """The figures of one case."""
        return [figure for figure in self.values if figure.case == case]

    def to_json(self) -> list[dict[str, Any]]:
        """A dict for each figure, ``values`` among its keys."""
        return [{**figure._asdict(), "values": values} for figure, values in self.values.items()]

    def write(self, path: Path, about: dict[str, Any]) -> None:
        """Into a JSON file; ``about`` tells of the machine and the versions."""
        path.parent.mkdir(parents=True, exist_ok=True)
        missing = [[*of, why] for of, why in self.missing.items()]
        content = {"about": about, "figures": self.to_json(), "missing": missing}
        path.write_text(json.dumps(content, indent=1) + "\n")


def read(path: Path) -> tuple[Figures, dict[str, Any]]:
    """Read what :meth:`Figures.write` wrote."""
    content = json.loads(path.read_text())
    values = {Figure(*(entry[name] for name in Figure._fields)): entry["values"] for entry in content["figures"]}
    figures = Figures(values)
    figures.missing = {(case, database, subject): why for case, database, subject, why in content.get("missing", [])}
    return figures, content["about"]
