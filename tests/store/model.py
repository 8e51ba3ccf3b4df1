"""DESIGN §3 in plain Python: one identity, without a database. What the store is compared with."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django_delayed_tasks.states import RunOutcome, TaskStatus, Then

OUTCOMES = {
    Then.GONE: RunOutcome.DONE,
    Then.AGAIN: RunOutcome.RESCHEDULED,
    Then.RETRY: RunOutcome.RETRIED,
    Then.FAILED: RunOutcome.FAILED,
    Then.RESCUED: RunOutcome.LOST,
}


@dataclass(frozen=True)
class Live:
    """A live row."""

    when: datetime
    ext: Any
    claim_at: datetime
    status: TaskStatus = TaskStatus.PENDING
    version: int = 0
    attempts: int = 0
    rescues: int = 0
    stopping: bool = False
    deferred: tuple[datetime, Any] | None = None


class Model:
    """One identity and its history. Every method answers what the API is expected to."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self.history: list[RunOutcome] = []

    def add(self, now: datetime, when: datetime, ext: Any, mode: str) -> str:
        if self.live is None:
            self.live = Live(when, ext, max(when, now))
            return "created"
        if mode != "replace":
            return "kept" if mode == "keep" else "TaskExists"
        if self.live.status == TaskStatus.RUNNING:
            self.live = replace(self.live, deferred=(when, ext))
            return "deferred"
        self.live = Live(when, ext, max(when, now), version=self.live.version + 1)
        return "replaced"

    def reschedule(self, now: datetime, when: datetime) -> bool:
        if self.live is not None:
            beside = self.live.deferred or (self.live.when, self.live.ext)
            running = self.live.status == TaskStatus.RUNNING
            self.add(now, when, beside[1] if running else self.live.ext, "replace")
        return self.live is not None

    def cancel(self) -> str:
        if self.live is None:
            return "missing"
        if self.live.status == TaskStatus.RUNNING:
            self.live = replace(self.live, stopping=True, deferred=None)
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

    def end(self, now: datetime, then: Then, when: datetime) -> Then:
        """The claim that is held ends so; ``when`` is the time of AGAIN and RETRY."""
        live = self.live
        assert live
        if live.stopping and not live.deferred and then is not Then.GONE:
            self._end(RunOutcome.CANCELLED)
            return Then.GONE
        self.history += [OUTCOMES[then]] if then in OUTCOMES else []
        taken = then in (Then.RESCUED, Then.RELEASED)
        version = live.version + taken
        if live.deferred:
            self.live = Live(*live.deferred, max(live.deferred[0], now), version=version)
            return Then.AGAIN
        quiet = replace(live, status=TaskStatus.PENDING, version=version, attempts=live.attempts - taken)
        self.live = {
            Then.GONE: None,
            Then.AGAIN: Live(when, live.ext, max(when, now), version=version),
            Then.RETRY: replace(quiet, claim_at=max(when, now)),
            Then.FAILED: replace(quiet, status=TaskStatus.FAILED),
            Then.RESCUED: replace(quiet, claim_at=now, rescues=live.rescues + 1),
            Then.RELEASED: replace(quiet, claim_at=now),
        }[then]
        return then

    def reap(self, now: datetime, max_rescues: int) -> Then | None:
        """From the second time on the store says when it goes on; here it is at once."""
        if self.live is None or self.live.status != TaskStatus.RUNNING:
            return None
        if self.live.rescues < max_rescues:
            return self.end(now, Then.RESCUED, now)
        ended = self.end(now, Then.FAILED, now)
        if self.history[-1] == RunOutcome.FAILED:
            self.history[-1] = RunOutcome.LOST
        return ended

    def _end(self, outcome: RunOutcome) -> None:
        self.history.append(outcome)
        self.live = None
