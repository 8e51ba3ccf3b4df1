"""Filling a peer's queue, starting its workers, and how fast they executed what was due."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from harness import ROOT
from harness.benchmarks.peers import environments, recorder
from harness.benchmarks.peers.environments import NotMeasured
from harness.servers.processes import die_with_parent

PATIENCE = 30.0
"""Seconds in which something must happen."""
GRACE = 3.0
"""Seconds that a worker may take to end."""
LOOK = 0.1
"""Seconds between two looks at how many were executed."""


def drain_rate(
    fill: Sequence[str], worker: Sequence[str], environment: Mapping[str, str], tasks: int, workers: int
) -> float:
    """Tasks per second, from the first execution to the last; NotMeasured unless each task ran exactly once."""
    with tempfile.TemporaryDirectory(prefix="ddt-peer-") as name:
        folder = Path(name)
        noting = {recorder.FOLDER: name, recorder.CAPACITY: str(2 * tasks)}
        run([*fill, str(tasks)], environment, folder)
        with ExitStack() as stack:
            running = [stack.enter_context(started(worker, {**environment, **noting}, folder)) for _ in range(workers)]
            wait_until(lambda: len(recorder.executions(folder)), tasks, running, folder)
        times = recorder.executions(folder)
    if len(times) != tasks:
        raise NotMeasured(f"{tasks} tasks were due, {len(times)} executions")
    return tasks / (max(times) - min(times))


def run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
    """A program of a peer, to its end; NotMeasured when it fails."""
    with started(command, environment, folder) as process:
        try:
            returned = process.wait(20 * PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise NotMeasured(f"{' '.join(command)} did not end") from error
    if returned:
        raise NotMeasured(f"{' '.join(command)} ended with {returned}: {said(folder)}")


def answer_of(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the number that a program of a peer prints last."""
    with tempfile.TemporaryDirectory(prefix="ddt-peer-") as name:
        run(command, environment, Path(name))
        return float((Path(name) / "log").read_text().splitlines()[-1])


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program of a peer (the first word is python or node), in a session of its own that ends with the block."""
    words, modules = resolved(command)
    settings = {"PYTHONPATH": str(ROOT), **modules, **environment}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            words, env={**os.environ, **settings}, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )  # fmt: skip
    try:
        yield process
    finally:
        end(process)


def resolved(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The words with the path of the program, and what its environment needs."""
    program, *words = command
    if program == "node":
        return [environments.node(), *words], {"NODE_PATH": environments.node_modules()}
    return [environments.python(), *words], {}


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, and then end what is left of its session."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(
    number: Callable[[], int], wanted: int, running: Sequence["subprocess.Popen[bytes]"], folder: Path
) -> None:
    """Wait until ``number()`` is the wanted one; raise NotMeasured if a program ends, or nothing more happens."""
    last, since = -1, time.monotonic()
    while (now := number()) < wanted:
        if now != last:
            last, since = now, time.monotonic()
        if ended := [process.returncode for process in running if process.poll() is not None]:
            raise NotMeasured(f"a worker ended with {ended[0]} after {now} of {wanted}: {said(folder)}")
        if time.monotonic() - since > PATIENCE:
            raise NotMeasured(f"nothing happened for {PATIENCE:.0f} s after {now} of {wanted}: {said(folder)}")
        time.sleep(LOOK)


def said(folder: Path) -> str:
    """The end of what the programs printed."""
    return (folder / "log").read_text(errors="replace").strip()[-400:]
