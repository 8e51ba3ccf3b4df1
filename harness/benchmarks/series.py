"""Values over time, which plots show and tables do not: {case: {database: {"bin": seconds, "values": […]}}}."""

import json
from pathlib import Path
from typing import Any

FILE = Path("build/benchmarks-series.json")

Series = dict[str, dict[str, dict[str, Any]]]


def read(path: Path = FILE) -> Series:
    """Return what was written; nothing without a file."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(case: str, database: str, seconds: float, values: list[int], path: Path = FILE) -> None:
    """Write one series of a case, in place of an earlier one; ``seconds`` lie between two values."""
    series = read(path)
    series.setdefault(case, {})[database] = {"bin": seconds, "values": values}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(series) + "\n")
