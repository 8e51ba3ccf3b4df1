"""9. Executors on hosts whose clocks are ten minutes ahead and behind: nothing early, nothing stolen, nothing late."""

from collections import Counter
from datetime import datetime, timedelta

from django_delayed_tasks.states import RunOutcome
from harness.torture import ledger
from harness.torture.calls import database_now
from harness.torture.facts import Facts
from harness.torture.faults.clocks import wrong_by
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

WRONG = (-10, 0, 10)
"""Minutes."""
LATEST = timedelta(seconds=30)
"""How late a run may begin on a busy machine; what goes by a wrong clock is late by minutes, or never begins."""
ROUGHLY = timedelta(seconds=5)
"""How exactly an executor knows the database's clock: it is told now and then, and a busy machine is slow to tell."""


@register
class Clocks(Scenario):
    name = "clocks"
    number = 9
    title = "executors whose clocks are 10 minutes ahead and behind"
    sizes = {
        "short": Size(tasks=80, executors=3, threads=2),
        "full": Size(tasks=3_000, executors=6, threads=4),
    }
    databases = frozenset({"mariadb", "mysql", "postgres"})  # SQLite's clock is its host's

    def run(self, world: World) -> None:
        began = database_now()
        for number in range(world.size.executors):
            minutes = WRONG[number % len(WRONG)]
            world.cluster.start(
                f"by{minutes:+d}-{number}", environment=wrong_by(minutes), settings=self._settings(world)
            )
            if minutes:
                world.tally.faults[f"clock wrong by {minutes:+d} min"] += 1
        for executor in world.cluster.living():
            executor.wait_until_ready()
        world.load.codes = ("t-plain", "t-atomic", "t-retrying", "t-again")
        world.load.start(world.size.tasks, rate=60)
        world.wait_until(lambda: not world.load.is_going_on, "the load", patience=600)
        world.drain()
        self._judge(world, began)

    @staticmethod
    def _settings(world: World) -> dict[str, int]:
        return {"THREADS": world.size.threads}

    def _judge(self, world: World, began: datetime) -> None:
        facts, now = Facts(ledger.read()), database_now()
        for seen in facts.ledger.seen:
            if seen.at < seen.when:
                world.violation(f"task {seen.task_id} ({seen.code}) ran at {seen.at}, before {seen.when}")
        latest = timedelta()
        for run in facts.settlements:
            who = f"task {run.task_id} ({run.code}), version {run.version}"
            if run.outcome == RunOutcome.LOST:
                world.violation(f"{who}: was taken from a live executor")
            moments = [run.started or run.finished, run.finished]
            if not all(began - ROUGHLY <= moment <= now + ROUGHLY for moment in moments):
                world.violation(f"{who}: from {run.started} to {run.finished}, by no clock of this database")
            if run.version == 1 and run.started:  # not postponed by a retry or another schedule
                latest = max(latest, run.started - run.when)
        if latest > LATEST:
            world.violation(f"a task began {latest} late")
        self._tell(world, facts, latest)

    def _tell(self, world: World, facts: Facts, latest: timedelta) -> None:
        runs = Counter(run.executor for run in facts.settlements if run.executor)
        if len(runs) < world.size.executors:
            world.violation(f"only {len(runs)} of {world.size.executors} executors ran anything")
        world.fact(
            f"latest begin {latest.total_seconds():.3f} s after its time; runs of each executor: {[*runs.values()]}"
        )
