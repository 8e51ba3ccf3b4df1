"""The seeded load: adds in all modes, cancels and reschedules, at random over a set of identities beyond ASCII."""

import random
import time
from datetime import timedelta
from threading import Event, Thread
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, connections

from django_delayed_tasks.models import NUM_LENGTH, Task
from django_delayed_tasks.states import TaskStatus
from harness.torture.calls import Caller, NotKnown
from harness.torture.codes import MIXED
from harness.torture.pooling import use_pool
from harness.torture.texts import TEXTS, text_of

FRESH = 0.7
"""The part of the calls that name a new identity; the others come back to one of the latest."""
RECENT = 40
LONG_EVERY = 20
"""Each twentieth call, if it names a new identity, gives it a number of the greatest length."""
MANY = 3
"""Identities in one ``add_tasks``."""
AGAIN = ("replace", "keep", "raise", "earliest", "latest", "once")
"""The ways to add what may be there already."""


class Load:
    """Makes ``total`` calls, about ``rate`` a second, in a thread. The same seed throws the same dice.

    A few calls are two, or for several tasks.
    """

    def __init__(self, caller: Caller, stop: Event, chance: random.Random, codes: tuple[str, ...] = MIXED) -> None:
        self._caller = caller
        self._chance = chance
        self.codes = codes
        self.longest = 0.5
        """Seconds that a run takes at most."""
        self._stop = stop
        self._thread: Thread | None = None
        self._recent: list[tuple[str, str]] = []
        self._made = 0
        self.error: BaseException | None = None

    @property
    def made(self) -> int:
        """Calls made so far."""
        return self._made

    @property
    def is_going_on(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, total: int, rate: float) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, args=(total, rate), name="load", daemon=True)
        self._thread.start()

    def finish(self, patience: float = 60.0) -> None:
        """Stop making calls; the present one is brought to its end first, if the database allows."""
        if self._thread:
            self._stop.set()
            self._thread.join(patience)
        error, self.error = self.error, None
        if error:
            raise error

    def wait(self) -> bool:
        """Whether all is made; looks once."""
        return not self.is_going_on

    def _run(self, total: int, rate: float) -> None:
        begun = time.monotonic()
        use_pool()
        try:
            while self._made < total and not self._stop.is_set():
                self.make_one()
                self._made += 1
                self._stop.wait(max(0.0, begun + self._made / rate - time.monotonic()))
        except NotKnown:
            pass  # told to stop during an outage: the ledger says whether it was accepted
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()

    def make_one(self) -> None:
        """The next call."""
        chance = self._chance
        if not self._recent or chance.random() < FRESH:
            self._add_new()
            return
        identity = chance.choice(self._recent)
        match chance.choices(("add", "cancel", "reschedule", "restart"), (8, 2, 2, 2))[0]:
            case "cancel":
                self._caller.cancel(*identity)
            case "reschedule":
                self._caller.reschedule(*identity, self._when())
            case "add":
                self._add_again(identity)
            case _:
                self._restart()

    def _add_new(self) -> None:
        chance = self._chance
        if chance.random() < 0.1:
            number = chance.randrange(len(TEXTS))
            identities = [self._identity(text_of(number + one)) for one in range(MANY)]
            self._caller.add_many(identities, self._when(), self._data())
        else:
            identities = [self._identity(chance.choice(("", *TEXTS)))]
            mode = "once" if chance.random() < 0.1 else "replace"
            self._caller.add(*identities[0], self._when(), self._data(), if_exists=mode)
        self._recent = [*self._recent, *identities][-RECENT:]

    def _identity(self, text: str) -> tuple[str, str]:
        num = f"n{self._made}{text and '-'}{text}"
        return self._chance.choice(self.codes), num if self._made % LONG_EVERY else num.ljust(NUM_LENGTH, "x")

    def _add_again(self, identity: tuple[str, str]) -> None:
        mode = self._chance.choices(AGAIN, (5, 1, 1, 1, 1, 1))[0]
        self._caller.add(*identity, self._when(), self._data(), if_exists=mode)

    def _restart(self) -> None:
        """Cancel a task during its run, then want it again."""
        chance, way = self._chance, self._chance.choice((*AGAIN, "reschedule"))
        running = Task.objects.filter(status=TaskStatus.RUNNING, cancel_requested_at=None, biz_code__in=self.codes)
        try:
            found = list(running.values_list("biz_code", "biz_num"))
        except (DatabaseError, InterfaceError):
            connection.close()
            return
        if not found:
            return
        identity = chance.choice(found)
        self._caller.cancel(*identity)
        if way == "reschedule":
            self._caller.reschedule(*identity, self._when())
        else:
            self._caller.add(*identity, self._when(), self._data(), if_exists=way)

    def _when(self) -> timedelta | None:
        return None if self._chance.random() < 0.5 else timedelta(seconds=self._chance.uniform(0, 3))

    def _data(self) -> dict[str, Any]:
        chance = self._chance
        return {
            "seconds": round(chance.choice((0.0, 0.04, 0.4, 1.0)) * self.longest, 3),
            "fail": chance.randint(0, 2),
            "again": chance.randint(0, 3),
        }
