"""The results of a batch: one for each task, and what becomes of the tasks if some are wrong, or the call raises."""

from collections.abc import Callable
from typing import Any

from django_delayed_tasks.exceptions import InvalidOutcome
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.deciding import GivenBack, RaisedError, raised
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.redaction import shown


class UnmatchedResults(InvalidOutcome):
    """The results of ``handle_batch`` do not match the tasks. Final for each: it would return the same again."""


class WrongResults(InvalidOutcome):
    """Some of the results of an atomic batch are no outcomes: ``of`` has the error of each of these tasks.

    It is final for them. The other tasks, whose effects are rolled back as well, are run again.
    """

    def __init__(self, of: dict[Claim, InvalidOutcome]) -> None:
        super().__init__(str(next(iter(of.values()))))
        self.of = of


def results_of(handler: TaskHandler, returned: Any, count: int) -> list[Any]:
    """Return one result for each task of a batch.

    Raises:
        UnmatchedResults: what the handler returned has not one result for each.
    """
    if returned is None:
        return [None] * count
    if isinstance(returned, list | tuple) and len(returned) == count:
        return [raised(result) if isinstance(result, BaseException) else result for result in returned]
    name = f"{type(handler).__qualname__} ({handler.biz_code})"
    expected = (
        f"expected None, or a list of {count} {plural(count, 'outcome')}, one for each task, in the order of the tasks"
    )
    raise UnmatchedResults(f"{name} returned {shown(returned)}: {expected}")


def settlements_of(
    tasks: Batch, results: list[Any], decide: Callable[[ClaimedTask, Any], Settlement]
) -> list[Settlement]:
    """Decide each task by its result.

    Raises:
        WrongResults: ``decide`` has raised InvalidOutcome for some of the tasks.
        BaseException: what it raised first, if none of that is an InvalidOutcome.
    """
    settlements: list[Settlement] = []
    errors: dict[Claim, BaseException] = {}
    for task, result in zip(tasks, results, strict=True):
        try:
            settlements.append(decide(task, result))
        except BaseException as error:
            errors[task.claim] = error
    if wrong := {claim: error for claim, error in errors.items() if isinstance(error, InvalidOutcome)}:
        raise WrongResults(wrong)
    if errors:
        raise next(iter(errors.values()))
    return settlements


def split_by_blame(tasks: Batch, error: BaseException) -> tuple[Batch, Batch]:
    """Return the tasks whose run ends with the error of their call, and those that are run again, each alone."""
    if len(tasks) == 1 or isinstance(error, UnmatchedResults | GivenBack):
        return tasks, []
    wrong = error.of if isinstance(error, WrongResults) else {}
    return [task for task in tasks if task.claim in wrong], [task for task in tasks if task.claim not in wrong]


def raised_for(task: ClaimedTask, error: BaseException) -> RaisedError:
    """Return how the run of this task ended, if the call for it ended with ``error``."""
    return raised(error.of[task.claim] if isinstance(error, WrongResults) else error)
