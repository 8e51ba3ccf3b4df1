"""One to eight executors on one queue of tasks that become due together: claims in vain, conflicts, shares."""

from typing import Any

from harness.benchmarks.bench import Bench, answer_of, say, wait_until_ready
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

TASKS = 40_000
EXECUTORS = (1, 2, 4, 8)
LATER = 3600
WASTED, SHARE = "wasted claims", "least share of the mean"
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")


def measure(bench: Bench) -> None:
    """Measure each number of executors in turn."""
    for database in bench.databases:
        for _ in bench.turns(database):
            for executors in bench.some(EXECUTORS):
                one(bench, database, executors)


def one(bench: Bench, database: str, executors: int) -> None:
    """The tasks are there before the executors, and become due when all of these know each other."""
    tasks = bench.size(TASKS)
    bench.run("fill", tasks, "nothing", LATER, database=database)
    running = [bench.start("contend", executors, database=database) for _ in range(executors)]
    try:
        for process in running:
            wait_until_ready(process)
        drained = bench.run("due", database=database)
        for process in running:
            say(process, "end")
        answers = [answer_of(process) for process in running]
    finally:
        for process in running:
            process.kill()
    note(bench, database, executors, tasks, answers, drained)


def note(
    bench: Bench, database: str, executors: int, tasks: int, answers: list[dict[str, int]], drained: dict[str, Any]
) -> None:
    """The figures."""
    total = {key: sum(answer[key] for answer in answers) for key in answers[0]}
    if total["won"] < tasks:
        raise RuntimeError(f"of {tasks} tasks {total['won']} were claimed")
    least, most = (pick(answer["won"] for answer in answers) * executors / tasks for pick in (min, max))
    for what, unit, value in (
        ("rate", "tasks/s", tasks / drained["seconds"]),
        (WASTED, "%", 100 * total["lost"] / tasks),
        ("claims that found nothing", "% of claims", 100 * total["empty"] / (total["batches"] + total["empty"])),
        (SHARE, "×", least),
        ("greatest share of the mean", "×", most),
        ("statements", "per 100 tasks", 100 * total["statements"] / tasks),
        ("commits", "per 100 tasks", 100 * total["commits"] / tasks),
        ("deadlocks", "in all", drained["conflicts"]),
    ):
        bench.note(database, PRODUCT, variant_of(what, executors), unit, value)


def variant_of(what: str, executors: int) -> str:
    return f"{what}, {executors} executor" + ("s" if executors > 1 else "")


def goals_of(database: str) -> list[Goal]:
    """Eight do not stand in each other's way."""
    wasted = Figure("contention", database, PRODUCT, variant_of(WASTED, EXECUTORS[-1]), "%")
    share = Figure("contention", database, PRODUCT, variant_of(SHARE, EXECUTORS[-1]), "×")
    return [
        Goal("eight executors: wasted claims", wasted, 1.0, is_most=True),
        Goal("eight executors: least share of the mean", share, 0.3),
    ]


GOALS = [goal for database in DATABASES for goal in goals_of(database)]
