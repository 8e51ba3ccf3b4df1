"""How things stand, live: a line for each database on a terminal, one now and then elsewhere."""

import sys
import time
from collections.abc import Sequence
from typing import Any

BETWEEN = 15.0


class Screen:
    def __init__(self, databases: Sequence[str]) -> None:
        self._lines = dict.fromkeys(databases, "waiting")
        self._on_terminal = sys.stdout.isatty()
        self._drawn = False
        self._printed = dict.fromkeys(databases, 0.0)

    def hear(self, database: str, message: dict[str, Any]) -> None:
        """A runner said this."""
        self._lines.setdefault(database, "")
        self._printed.setdefault(database, 0.0)
        if progress := message.get("progress"):
            self._lines[database] = _words(progress)
        elif state := message.get("state"):
            self._lines[database] = state
        elif result := message.get("result"):
            self._lines[database] = f"{result['scenario']}: {result['verdict']} after {result['seconds']:.0f} s"
            self._printed[database] = 0.0
        self._show(database)

    def _show(self, database: str) -> None:
        if self._on_terminal:
            self._draw()
        elif time.monotonic() - self._printed[database] >= BETWEEN:
            self._printed[database] = time.monotonic()
            print(f"  {database:14s} {self._lines[database]}", flush=True)

    def _draw(self) -> None:
        up = f"\033[{len(self._lines)}A" if self._drawn else ""
        self._drawn = True
        print(up + "".join(f"\r\033[K  {name:14s} {line}\n" for name, line in self._lines.items()), end="", flush=True)

    def close(self) -> None:
        """Leave the last state standing."""
        sys.stdout.flush()


def _words(progress: dict[str, Any]) -> str:
    broken = f"  {progress['violations']} VIOLATIONS" if progress["violations"] else ""
    return (
        f"{progress['scenario']:18s} {progress['seconds']:5.0f} s  {progress['calls']:6,d} calls"
        f"  {progress['runs']:6,d} runs  {progress['open']:5,d} open  {progress['faults']:4d} faults{broken}"
    )
