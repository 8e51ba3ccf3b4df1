"""100,000 tasks that become due within one second: how long until the last has started, and what others suffer.

Two executors with default options, idle before; both numbers come from the history. The others are few tasks of
another queue of the same priority, due one after the other while the storm lasts.
"""

import statistics

from harness.benchmarks import series
from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

TASKS, OTHERS = 100_000, 20
STARTED_PER_SECOND = 25_000
"""More than an executor can start, so that the others are due before the storm is over."""
LAST, OTHERS_MEDIAN, OTHERS_MAX = "last start", "another queue meanwhile, median", "another queue meanwhile, latest"


def measure(bench: Bench) -> None:
    """Measure a storm on each database, in turn."""
    tasks = bench.size(TASKS)
    for _ in bench.turns("all databases"):
        for database in bench.databases:
            answer = bench.run("storm", tasks, OTHERS, max(1.0, tasks / STARTED_PER_SECOND), database=database)
            bench.note(database, PRODUCT, LAST, "s", answer["last"])
            bench.note(database, PRODUCT, OTHERS_MEDIAN, "ms", 1000 * statistics.median(answer["late"]))
            bench.note(database, PRODUCT, OTHERS_MAX, "ms", 1000 * max(answer["late"]))
            series.write(bench.case, database, answer["bin"], answer["started"])


GOALS = [
    Goal("storm, last start", Figure("storm", "mariadb", PRODUCT, LAST, "s"), 10.0, is_most=True),
    Goal("storm, another queue", Figure("storm", "mariadb", PRODUCT, OTHERS_MAX, "ms"), 100.0, is_most=True),
]
