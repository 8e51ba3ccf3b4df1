"""The stock import, as cron starts it on several servers at the same moment."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from testproject.demo.processes import FOLDER, PythonProcess
from testproject.shop.models import Product

SERVERS = 3
LINES = 300
SOLD_HERE = "Imported lamp, number "


class Imports:
    """The same file on each server."""

    def __init__(self) -> None:
        self.file = FOLDER / "demo-stock.csv"
        self.file.write_text("".join(f"{name};{price}.50\n" for name, price in lines().items()))
        arguments = (str(Path(FOLDER, "manage.py")), "import_stock", str(self.file))
        self.processes = [PythonProcess(f"import-{number}", *arguments) for number in range(1, SERVERS + 1)]
        self._running = ExitStack()

    def __enter__(self) -> "Imports":
        for process in self.processes:
            self._running.enter_context(process)
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def outputs(self) -> list[str]:
        """Return the output of each import, when all have ended by themselves.

        Raises:
            ProcessFailed: one did not end in good order.
        """
        return [process.output_at_end() for process in self.processes]


def lines() -> dict[str, int]:
    """Products and prices."""
    return {f"{SOLD_HERE}{number}": number for number in range(1, LINES + 1)}


def import_problems(outputs: Sequence[str]) -> Iterator[str]:
    """one stock import ran at a time: every line is one product, and each server knows why it did nothing"""
    found = sorted(Product.objects.filter(name__startswith=SOLD_HERE).values_list("name", flat=True))
    if found != sorted(lines()):
        yield f"{len(found)} products instead of {LINES}"
    done = [output for output in outputs if f"{LINES} lines imported." in output]
    refused = [output for output in outputs if output.startswith("Another import is running: ")]
    if not done or len(done) + len(refused) != len(outputs):
        yield f"the imports said {outputs}"
