"""What a scenario works in: one database, its executors, the driver's calls, the tally, the dice."""

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, connection

from harness.torture import ledger
from harness.torture.calls import Caller, wait_for_database
from harness.torture.cluster import Cluster
from harness.torture.databases import Database
from harness.torture.faults.base import Fault
from harness.torture.invariants import violations_so_far
from harness.torture.load import Load
from harness.torture.pooling import close_pools
from harness.torture.proxy import Proxy
from harness.torture.scenario import Size
from harness.torture.tally import Tally

T = TypeVar("T")

PATIENCE = 90.0
"""Seconds without any progress after which a drain has failed: long, so that only what is stuck is called so."""
TICK = 0.05


class Late(Exception):
    """Raised when something did not happen in time; the verdict is BROKEN."""


class World:
    """Made new for each scenario. Everything but the load's thread happens in the main thread.

    Attributes:
        size: how much to do. ``random``: the dice, seeded by the seed, the scenario and the database.
        deadline: by ``time.monotonic()``, for scenarios that last for a given time; None: no limit given.
        caller: makes single API calls, with the ledger. ``load``: makes a mixed load of them in a thread.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        size: Size,
        seed: str,
        settings: Mapping[str, Any],
        show: Callable[["World"], None],
        minutes: float | None = None,
        bug: str = "",
    ) -> None:
        self.database = database
        self.folder = folder
        self.size = size
        self.random = random.Random(seed)
        self.deadline = None if minutes is None else time.monotonic() + minutes * 60
        self.began = time.monotonic()
        self.tally = Tally()
        self._bug = bug
        self.cluster = Cluster(database, folder, settings, bug)
        self._ending = Event()
        self.caller = Caller(self._ending)
        self.load = Load(self.caller, self._ending, random.Random(f"{seed} load"))
        if not database.has_server:
            self.load.longest = 0.05  # an atomic run keeps every other process from writing
        self._proxy: Proxy | None = None
        self._faults: list[Fault] = []
        self._show = show
        self._standing = ledger.Standing()
        self._checked = time.monotonic()

    @property
    def proxy(self) -> Proxy:
        """The proxy between the database's server and the clients that are given its URL; started when first used."""
        if self._proxy is None:
            self._proxy = Proxy(self.database.url)
        return self._proxy

    @property
    def is_over(self) -> bool:
        """Whether the time given is used up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def seconds_left(self) -> float:
        """Return the seconds left of the time given; 0 if none was."""
        return 0.0 if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def has_found_bug(self) -> bool:
        """Whether a planted bug has shown; it may leave rows locked, and tasks stuck."""
        return bool(self._bug and self.tally.violations)

    def inject(self, fault: Fault) -> bool:
        """Inject it and count it; whether there was something to do it to."""
        if fault not in self._faults:
            self._faults.append(fault)
        done = bool(quietly(lambda: fault.inject(self, self.random)))
        if done:
            self.tally.injected(fault.kind, datetime.now(UTC), fault.cuts_off)
        return done

    def count(self, kind: str, times: int = 1) -> None:
        """Count faults of this kind that the scenario itself injected."""
        for _ in range(times):
            self.tally.injected(kind, datetime.now(UTC))

    def heal(self, fault: Fault) -> None:
        """End the fault."""
        fault.heal(self)
        self.tally.healed(fault.kind, datetime.now(UTC))

    def heal_all(self) -> None:
        """End every fault, and wait until the database answers, the load has ended, and executors work."""
        for fault in self._faults:
            fault.heal(self)
        wait_for_database()
        self.cluster.resume()
        self.load.finish()

    def fact(self, text: str) -> None:
        """Add a line to the report."""
        self.tally.facts.append(text)

    def violation(self, text: str) -> None:
        """Add a violation to the report; the verdict becomes BROKEN."""
        self.tally.violations.append(text)

    def sleep(self, seconds: float) -> None:
        """Let things happen: executors that died are started again, and progress is shown."""
        until = time.monotonic() + seconds
        while True:
            self._tick()
            if (left := until - time.monotonic()) <= 0:
                return
            time.sleep(min(TICK, left))

    def wait_until(self, predicate: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
        """The first true value of ``predicate()``, which may ask the database: while that does not answer, it is false.

        Raises:
            Late: there was none within ``patience`` seconds.
        """
        until = time.monotonic() + patience
        while True:
            if value := quietly(predicate):
                return value
            if time.monotonic() > until:
                raise Late(f"not within {patience:g} s: {what}")
            self.sleep(TICK)

    def try_until(self, predicate: Callable[[], T], patience: float) -> T | None:
        """Wait as :meth:`wait_until` does, but return None if it does not happen."""
        try:
            return self.wait_until(predicate, "", patience)
        except Late:
            return None

    def drain(self) -> None:
        """Wait until nothing is pending or running any more, as long as there is progress, or a planted bug is found.

        Raises:
            Late: nothing moved for :data:`PATIENCE` seconds; the message names what is stuck.
        """
        moved, last = time.monotonic(), ledger.Standing()
        while True:
            standing = quietly(ledger.standing) or last
            if standing.is_drained or self.has_found_bug:
                return
            if standing != last:
                moved, last = time.monotonic(), standing
            if time.monotonic() - moved > PATIENCE:
                raise Late(f"nothing moved for {PATIENCE:g} s: {ledger.stuck()}")
            self.sleep(0.2)

    def check(self) -> None:
        """Look at the invariants now; what is violated is remembered."""
        found = quietly(violations_so_far) or []
        self.tally.violations += [text for text in found if text not in self.tally.violations]

    def progress(self, scenario: str) -> dict[str, Any]:
        """Return the progress, for the screen."""
        standing = quietly(ledger.standing) or self._standing
        self._standing = standing
        return {
            "scenario": scenario,
            "calls": max(0, standing.calls),
            "runs": max(0, standing.runs),
            "open": max(0, standing.waiting) + max(0, standing.running),
            "faults": self.tally.faults.total(),
            "violations": len(self.tally.violations),
            "seconds": time.monotonic() - self.began,
        }

    def finish(self) -> None:
        """End every process and thread of this world; executors must end in good order."""
        try:
            for fault in self._faults:
                fault.heal(self)
            self.load.finish(5)
        finally:
            close_pools()
            bad = self.cluster.end()
            if self._proxy:
                self._proxy.close()
            self.tally.violations += [f"executor {name} did not end in good order on SIGTERM" for name in bad]

    def _tick(self) -> None:
        self.cluster.tend()
        self._show(self)
        if time.monotonic() - self._checked > 10:
            self.check()
            self._checked = time.monotonic()


def quietly(ask: Callable[[], T]) -> T | None:
    """Return the database's answer, or None if it does not answer just now."""
    try:
        return ask()
    except (DatabaseError, InterfaceError):
        connection.close()
        return None
