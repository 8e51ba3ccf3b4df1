"""The runs, as values that read well in an assertion."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, overload

from django_delayed_tasks.handlers.functions import Code, code_named
from django_delayed_tasks.states import BizNum, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import WENT_WELL, Settlement
from django_delayed_tasks.store.validation import valid_identity


@dataclass(frozen=True)
class Ran:
    """One run that ended.

    Attributes:
        when: the time that the run stood for; ``started`` is when it started, None if it was too late to.
        attempt: the number of the attempt, from 1.
        outcome: as the history has it: DONE, RESCHEDULED, RETRIED, FAILED, CANCELLED, LOST or EXPIRED.
        result: what the run left with ``Done(result=…)``.
        error: the traceback or the reason, if it did not succeed; ``exception`` is the exception, if there was one.
        status: the status of the task afterwards, None if it is gone; ``next_at`` is when it runs again, if it does.
    """

    biz_code: str
    biz_num: str
    outcome: RunOutcome
    when: datetime
    started: datetime | None = None
    attempt: int = 1
    result: Any = None
    error: str = field(default="", repr=False)
    exception: BaseException | None = field(default=None, repr=False)
    status: TaskStatus | None = None
    next_at: datetime | None = None

    def __str__(self) -> str:
        text = f"{self.biz_code} {self.biz_num} {self.outcome.name.lower()}"
        if reason := self.reason:
            text += f" ({reason})"
        if self.next_at:
            text += f", again at {_shown(self.next_at)}"
        return f"{text} [{_shown(self.started)}]" if self.started else text

    @property
    def reason(self) -> str:
        """The last line of the error."""
        lines = self.error.strip().splitlines()
        return lines[-1] if lines else ""


def ran(
    task: ClaimedTask,
    settlement: Settlement,
    outcome: RunOutcome,
    status: int | None = None,
    claim_at: datetime | None = None,
) -> Ran:
    """Return the run of a claimed task that was settled; the last two are what is left of the task."""
    return Ran(
        task.biz_code,
        task.biz_num,
        outcome,
        settlement.stood_for or task.when,
        settlement.started,
        task.attempts,
        None if settlement.result is None else json.loads(settlement.result),
        settlement.error,
        settlement.exception,
        None if status is None else TaskStatus(status),
        claim_at if status == TaskStatus.PENDING else None,
    )


class Runs(Sequence[Ran]):
    """The runs of one call, in the order in which they ended; if there are none, which due tasks are ``waiting``."""

    def __init__(self, runs: Iterable[Ran] = (), waiting: str = "") -> None:
        self._runs = tuple(runs)
        self._waiting = waiting

    @overload
    def __getitem__(self, index: int) -> Ran: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | slice) -> "Ran | Runs":
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self._runs:
            return f"<nothing ran; {self._waiting}>" if self._waiting else "<nothing ran>"
        return "\n".join([f"<{len(self)} {'run' if len(self) == 1 else 'runs'}:", *(f"  {one}" for one in self)]) + ">"

    @property
    def outcomes(self) -> list[tuple[str, str, RunOutcome]]:
        """The code, the number and the outcome of each run."""
        return [(one.biz_code, one.biz_num, one.outcome) for one in self]

    @property
    def codes(self) -> list[str]:
        """The code of each run."""
        return [one.biz_code for one in self]

    def of(self, code: Code, num: BizNum | None = None) -> "Runs":
        """Return the runs of this code and, if it is given, of this number."""
        name = code_named(code)
        runs = [one for one in self if one.biz_code == name]
        if num is not None:
            number = valid_identity(name, num)[1]
            runs = [one for one in runs if one.biz_num == number]
        return Runs(runs)

    def raise_errors(self) -> "Runs":
        """Raise the exception of the first run that ended in one, so that a test shows its traceback.

        Raises:
            AssertionError: a run was not successful, without an exception.
        """
        for one in self:
            if one.exception is not None:
                raise one.exception
            if one.outcome not in WENT_WELL:
                raise AssertionError(str(one))
        return self


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
