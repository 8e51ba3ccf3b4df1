"""The state table of ``docs/explanation/design.md`` in plain Python, for one identity: a model of the store."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.triggers import next_time, parse

OUTCOMES = {
    NextState.GONE: RunOutcome.DONE,
    NextState.RECUR: RunOutcome.DONE,
    NextState.AGAIN: RunOutcome.RESCHEDULED,
    NextState.RETRY: RunOutcome.RETRIED,
    NextState.FAILED: RunOutcome.FAILED,
    NextState.RESCUED: RunOutcome.LOST,
}


class WantedResource(NamedTuple):
    """What a call asks for."""

    when: datetime
    ext: Any
    trigger: str | None = None
    once: bool = False
    keeps_ext: bool = False
    """Of a call during a run: it does not set the data."""
    in_any_case: bool = False
    """Of a call during a run: the task runs again even if the run does what is to be done once."""

    def after(self, left: Any) -> "WantedResource":
        """Return what takes effect when the run in progress has ended and has left this data."""
        return self._replace(ext=left if self.keeps_ext else self.ext, keeps_ext=False, in_any_case=False)


@dataclass(frozen=True)
class Live:
    """A live row."""

    wanted: WantedResource
    claim_at: datetime
    status: TaskStatus = TaskStatus.PENDING
    version: int = 0
    attempts: int = 0
    rescues: int = 0
    stopping: bool = False
    pausing: bool = False
    deferred: WantedResource | None = None

    @property
    def is_last(self) -> bool:
        """Whether it runs, was cancelled meanwhile, and nothing follows: it then counts as absent."""
        return self.stopping and self.deferred is None


class Model:
    """One identity and its history. Every method answers what the API is expected to."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self.history: list[RunOutcome] = []
        self.is_done = False

    def add(self, now: datetime, wanted: WantedResource, mode: str) -> str:
        if wanted.once and self.is_done:
            return "filtered"
        return self._put(now, wanted, mode)

    def _put(self, now: datetime, wanted: WantedResource, mode: str) -> str:
        if self.live is None:
            self.live = Live(wanted, max(wanted.when, now))
            return "created"
        if mode in ("keep", "raise"):
            if not self.live.is_last:
                return "kept" if mode == "keep" else "TaskExists"
        elif not self._is_preferred(wanted.when, mode):
            return "kept"
        if self.live.status == TaskStatus.RUNNING:
            self.live = replace(self.live, deferred=wanted, pausing=False)
            return "deferred"
        self.live = Live(wanted, max(wanted.when, now), version=self.live.version + 1)
        return "replaced"

    def _is_preferred(self, when: datetime, mode: str) -> bool:
        assert self.live
        than = self.live.deferred if self.live.status == TaskStatus.RUNNING else self.live.wanted
        if mode == "replace" or self.live.status == TaskStatus.FAILED or than is None:
            return True
        return when < than.when if mode == "earliest" else when > than.when

    def reschedule(self, now: datetime, when: datetime) -> bool:
        if self.live is not None:
            runs = self.live.status == TaskStatus.RUNNING
            wanted = self.live.deferred or self.live.wanted._replace(keeps_ext=runs)
            self._put(now, wanted._replace(when=when, in_any_case=runs and wanted.once), "replace")
        return self.live is not None

    def pause(self) -> bool:
        live = self.live
        if live is None or live.status == TaskStatus.FAILED or live.is_last:
            return False
        if live.status == TaskStatus.RUNNING:
            self.live = replace(live, pausing=True)
        elif live.status == TaskStatus.PENDING:
            self.live = replace(live, status=TaskStatus.PAUSED, version=live.version + 1)
        return True

    def resume(self, now: datetime) -> bool:
        live = self.live
        if live is None or not (live.pausing or live.status == TaskStatus.PAUSED):
            return False
        if live.pausing:
            self.live = replace(live, pausing=False)
            return True
        when = self._next(now) if live.wanted.trigger and live.wanted.when <= now else live.wanted.when
        of_another_time = live.wanted.trigger and when > now
        self.live = replace(
            live, status=TaskStatus.PENDING, version=live.version + 1,
            wanted=live.wanted._replace(when=when), claim_at=max(when, now),
            attempts=0 if of_another_time else live.attempts, rescues=0 if of_another_time else live.rescues,
        )  # fmt: skip
        return True

    def _next(self, now: datetime) -> datetime:
        assert self.live
        assert self.live.wanted.trigger
        found = next_time(parse(self.live.wanted.trigger), self.live.wanted.when, now)
        assert found
        return found

    def run_now(self, now: datetime) -> bool:
        live = self.live
        if live is None or live.status != TaskStatus.PENDING:
            return False
        is_retry = live.attempts > 0 and live.wanted.when <= now
        wanted = live.wanted if live.wanted.trigger or is_retry else live.wanted._replace(when=now)
        self.live = Live(wanted, now, version=live.version + 1, attempts=int(is_retry))
        return True

    def forget(self) -> bool:
        was_done, self.is_done = self.is_done, False
        return was_done

    def cancel(self) -> str:
        if self.live is None:
            return "missing"
        if self.live.status == TaskStatus.RUNNING:
            self.live = replace(self.live, stopping=True, pausing=False, deferred=None)
            return "stopping"
        self._end(RunOutcome.CANCELLED)
        return "cancelled"

    def is_due(self, now: datetime) -> bool:
        return self.live is not None and self.live.status == TaskStatus.PENDING and self.live.claim_at <= now

    def claim(self) -> int:
        """The version of the claim."""
        assert self.live
        version, attempts = self.live.version + 1, self.live.attempts + 1
        self.live = replace(self.live, status=TaskStatus.RUNNING, version=version, attempts=attempts)
        return version

    def holds(self, version: int) -> bool:
        live = self.live
        return live is not None and live.status == TaskStatus.RUNNING and live.version == version

    def end(
        self, now: datetime, then: NextState, when: datetime, outcome: RunOutcome | None = None, ext: Any = UNCHANGED
    ) -> NextState:
        """The claim that is held ends so; ``when`` is the time of AGAIN, RECUR and RETRY, ``ext`` what the run left."""
        live = self.live
        assert live
        outcome = OUTCOMES.get(then) if outcome is None else outcome
        deferred = live.deferred
        if self.is_remembered(then):
            self.is_done = True
            deferred = None if deferred and deferred.once and not deferred.in_any_case else deferred
        if live.stopping and not deferred and then is not NextState.GONE:
            self._end(RunOutcome.DONE if outcome is RunOutcome.DONE else RunOutcome.CANCELLED)
            return NextState.GONE
        self.history += [] if outcome is None else [outcome]
        taken = then in (NextState.RESCUED, NextState.RELEASED)
        version = live.version + taken
        waits = TaskStatus.PAUSED if live.pausing else TaskStatus.PENDING
        left = live.wanted.ext if ext is UNCHANGED else ext
        if deferred:
            self.live = Live(deferred.after(left), max(deferred.when, now), version=version, status=waits)
            return NextState.AGAIN
        quiet = replace(live, status=waits, version=version, attempts=live.attempts - taken, pausing=False)
        again = Live(live.wanted._replace(when=when, ext=left), max(when, now), version=version, status=waits)
        self.live = {
            NextState.GONE: None,
            NextState.AGAIN: again,
            NextState.RECUR: again,
            NextState.RETRY: replace(quiet, claim_at=max(when, now)),
            NextState.FAILED: replace(quiet, status=TaskStatus.FAILED, claim_at=now),
            NextState.RESCUED: replace(quiet, claim_at=now, rescues=live.rescues + 1),
            NextState.RELEASED: replace(quiet, claim_at=now),
        }[then]
        return then

    def is_remembered(self, then: NextState) -> bool:
        """Whether a run that ends so is the success of a task to be done once."""
        return self.live is not None and self.live.wanted.once and then is NextState.GONE

    def reap(self, now: datetime, max_rescues: int) -> NextState | None:
        """Reap the task. From the second time on the store says when it runs again; here it is at once."""
        if self.live is None or self.live.status != TaskStatus.RUNNING:
            return None
        if self.live.rescues < max_rescues:
            return self.end(now, NextState.RESCUED, now)
        if self.live.wanted.trigger:
            return self.end(now, NextState.RECUR, self._next(now), RunOutcome.LOST)
        return self.end(now, NextState.FAILED, now, RunOutcome.LOST)

    def _end(self, outcome: RunOutcome) -> None:
        self.history.append(outcome)
        self.live = None
