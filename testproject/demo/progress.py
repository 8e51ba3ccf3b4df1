"""A bar on a terminal; a line now and then elsewhere."""

import sys
import time

WIDTH = 30
BETWEEN_LINES = 5.0


class Progress:
    """Shows how much of ``total`` is done."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.begin = time.monotonic()
        self.last_line = 0.0
        self.on_terminal = sys.stdout.isatty()

    def show(self, done: int, words: str) -> None:
        seconds = time.monotonic() - self.begin
        if self.on_terminal:
            filled = WIDTH * done // max(self.total, 1)
            bar = "#" * filled + "." * (WIDTH - filled)
            print(f"\r\033[K  [{bar}] {words}, {seconds:.0f} s", end="", flush=True)
        elif seconds - self.last_line >= BETWEEN_LINES:
            self.last_line = seconds
            print(f"  {seconds:3.0f} s  {words}", flush=True)

    def end(self) -> None:
        if self.on_terminal:
            print()
