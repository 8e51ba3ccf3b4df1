"""Due no-op tasks, all of which are there when the executors start: tasks per second until the last is settled."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from harness.benchmarks.bench import Bench, answer_of, ending, say, wait_until_ready
from harness.benchmarks.figures import LEAN, PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.together import seconds_of

TASKS = 40_000
WITH_LEAN = ("mariadb", "postgres", "mysql")
RATE = "tasks/s"
PROCESSES = (1, 2)


def measure(bench: Bench) -> None:
    """Measure each way in turn."""
    for database in bench.databases:
        for _ in bench.turns(database):
            for processes in bench.some(PROCESSES):
                if database in WITH_LEAN:
                    lean(bench, database, processes)
                product(bench, database, processes, "plain", code="nothing")
                product(bench, database, processes, "handle_batch", code="batched")
            product(bench, database, 1, "plain, without history", code="unrecorded")


def variant_of(way: str, processes: int) -> str:
    return f"{way}, {processes} process" + ("es" if processes > 1 else "")


def product(bench: Bench, database: str, processes: int, way: str, code: str, **options: Any) -> None:
    """Executors with default options but these."""
    tasks = bench.size(TASKS)
    bench.run("fill", tasks, code, database=database)
    words = [f"{name}={value!r}" for name, value in options.items()]
    answers = together(bench, database, [("drain", *words)] * processes)
    done = sum(answer["result"] for answer in answers)
    if done != tasks:
        raise RuntimeError(f"{tasks} tasks were due, {done} settled")
    bench.note(database, PRODUCT, variant_of(way, processes), RATE, tasks / seconds_of(answers))


def lean(bench: Bench, database: str, processes: int) -> None:
    """The same with the lean pipeline."""
    tasks = bench.size(TASKS)
    bench.run("lean", "fill", tasks, database=database)
    answers = together(bench, database, [("lean", "drain", place, processes) for place in range(processes)])
    bench.note(database, LEAN, variant_of("plain", processes), RATE, tasks / seconds_of(answers))


def together(
    bench: Bench, database: str, commands: Sequence[Sequence[Any]], **environment: str
) -> list[dict[str, Any]]:
    """Return the answers of these programs, which begin once all are ready."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(ending(bench.start(*command, database=database, **environment))) for command in commands
        ]
        for process in running:
            wait_until_ready(process)
        for process in running:
            say(process, "go")
        return [answer_of(process) for process in running]


def rate_of(database: str, subject: str, way: str, processes: int) -> Figure:
    return Figure("drain", database, subject, variant_of(way, processes), RATE)


OF_LEAN = {"mariadb": 0.6, "postgres": 0.8, "mysql": 0.6}
"""The least share of the lean pipeline's rate that plain tasks are to reach."""


def goals_of(database: str) -> list[Goal]:
    """Return the goals: the share to reach of the lean pipeline's best rate, with any number of processes."""
    lean = tuple(rate_of(database, LEAN, "plain", processes) for processes in PROCESSES)
    return [
        Goal("drain, two processes", rate_of(database, PRODUCT, "plain", 2), OF_LEAN[database], lean),
        Goal("drain, handle_batch", rate_of(database, PRODUCT, "handle_batch", 2), 0.9, lean),
    ]


GOALS = [goal for database in WITH_LEAN for goal in goals_of(database)]
