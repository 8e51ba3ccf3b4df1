"""Runs spin: from the model to a verifier in C, from there to a verdict."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.verification.sizes import LanesSize, Size

MODEL = Path(__file__).resolve().parent / "model" / "tasks.pml"
PROGRAMS = ("spin", "gcc")
DEEPEST = 10_000
TIMEOUT = 1200.0
"""Seconds for one search, on a loaded machine."""


PROMISES = {
    "runs_as[": "no two live claims",
    "current[me]": "no stale settlement",
    "ended==calls": "no accepted schedule lost",
    "last_is_add||": "the last accepted call wins",
    "schedule==my_schedule": "no run at a schedule that was replaced",
    "was_armed": "nothing is kept of which nothing comes",
    "lease[": "never stuck",
    "slot_task": "no blocked task is forgotten",
    "claim[": "no more runs than slots",
    "status==": "what only a run can have goes with it",
}
"""The assertions of the model in words, by what of their text tells them apart, the first that fits."""


class SpinError(Exception):
    """Spin could not be run, or its search was not exhaustive; the text says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one search. ``violated`` is the promise that was broken, "" if none was."""

    states: int
    depth: int
    seconds: float
    violated: str
    unreached: tuple[str, ...]
    trail: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.violated


def search(size: Size | LanesSize, macros: Sequence[str] = (), *, shortest: bool = False) -> Verdict:
    """Visit every state of the model in this size.

    ``macros`` are defined for it; with ``shortest`` the search is breadth first, and what it finds has no shorter way.

    Raises:
        SpinError: the search ended before it had seen everything, other than by a violated assertion.
    """
    definitions = [*size.definitions(), *(f"-D{macro}" for macro in macros)]
    with _folder() as folder:
        model = MODEL.with_name(size.model)
        _run(folder, "spin", "-a", *definitions, str(model))
        way = ["-DBFS"] if shortest else []
        _run(folder, "gcc", "-O2", "-w", "-DSAFETY", "-DMEMLIM=4000", *way, "-o", "pan", "pan.c")
        output = _run(folder, "./pan", f"-m{DEEPEST}", "-w22")
        verdict = verdict_of(output)
        return verdict if verdict.holds else replace(verdict, trail=_replay(folder, definitions, model))


def verdict_of(output: str) -> Verdict:
    """Return the verdict of the verifier's report.

    Raises:
        SpinError: the search ended before it had seen everything, other than by a violated assertion.
    """
    violated = _violated(output)
    _insist_on_exhaustion(output, violated)
    return Verdict(
        states=int(_only(r"(\d+) states, stored", output)),
        depth=int(_only(r"depth reached (\d+)", output)),
        seconds=float(_only(r"elapsed time ([\d.e+-]+)", output)),
        violated=violated,
        unreached=tuple(_unreached(output)),
    )


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ddt-spin-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path, *command: str) -> str:
    result = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
    )
    output = result.stdout + result.stderr
    if result.returncode != 0:
        raise SpinError(f"{' '.join(command)} failed:\n{output[-4000:]}")
    return output


def _violated(output: str) -> str:
    found = re.search(r"assertion violated (.*?) \(at depth", output)
    if not found:
        return ""
    return next((words for needle, words in PROMISES.items() if needle in found[1]), found[1])


def _insist_on_exhaustion(output: str, violated: str) -> None:
    errors = int(_only(r"errors: (\d+)", output))
    incomplete = ("max search depth too small", "Search not completed", "truncated", "out of memory", "hash-compact")
    why = [text for text in incomplete if text in output]
    if not violated and (errors or why or "Full statespace search" not in output):
        raise SpinError(f"the search was not exhaustive ({', '.join(why) or f'{errors} errors'}):\n{output[-4000:]}")


def _only(pattern: str, output: str) -> str:
    found = re.search(pattern, output)
    if not found:
        raise SpinError(f"spin's output is not understood:\n{output[-4000:]}")
    return found[1]


def _unreached(output: str) -> Iterator[str]:
    """Statements that no execution came to, but for the ends of processes that wait for ever."""
    for line in re.findall(r"^\t(\S+:\d+, state .*)$", output, re.MULTILINE):
        if not line.endswith('"-end-"'):
            yield line.rpartition("/")[2]


def _replay(folder: Path, definitions: Sequence[str], model: Path) -> tuple[str, ...]:
    """The steps that lead to the violation, in the words of the model's printf."""
    output = _run_trail(folder, definitions, model)
    steps = (line.strip() for line in output.splitlines())
    return tuple(step for step in steps if re.match(r"(executor|reaper|add|cancel|the claim|\()", step))


def _run_trail(folder: Path, definitions: Sequence[str], model: Path) -> str:
    # Spin leaves with an error of its own, since the assertion fails again.
    command = ["spin", "-k", f"{model.name}.trail", *definitions, str(model)]
    result = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return result.stdout.partition("Error: assertion violated")[0]
