"""What was done to the executors and the database, counted, with the moments that recoveries are measured from."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime


@dataclass(frozen=True)
class Injection:
    """One fault: its kind, when it began, and when it was over (by the host's clock, which the databases here share).

    ``cuts_off``: whether it may have kept one executor from renewing its lease while others renewed theirs.
    """

    kind: str
    over: datetime
    began: datetime
    cuts_off: bool = False


@dataclass
class Tally:
    """``facts`` are lines for the report, ``violations`` what a scenario found by itself."""

    faults: Counter[str] = field(default_factory=Counter)
    injections: list[Injection] = field(default_factory=list)
    deaths: list[tuple[int, datetime]] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def injected(self, kind: str, over: datetime, cuts_off: bool = False) -> None:
        """A fault of this kind happened and is over (or will be) from ``over`` on."""
        self.faults[kind] += 1
        self.injections.append(Injection(kind, over, over, cuts_off))

    def healed(self, kind: str, at: datetime) -> None:
        """Note that the last fault of this kind lasted until ``at``."""
        for index in range(len(self.injections) - 1, -1, -1):
            if self.injections[index].kind == kind:
                self.injections[index] = replace(self.injections[index], over=at)
                return

    def died(self, pid: int, at: datetime) -> None:
        """A process was killed or stopped: what it had claimed waits from now on."""
        self.deaths.append((pid, at))
