"""Many threads of the driver that do something at once, each with dice and a connection of its own."""

import random
from collections.abc import Callable
from threading import Event, Thread

from django.db import connections

from harness.torture.calls import NotKnown
from harness.torture.world import World

Work = Callable[[random.Random], object]


class Crowd:
    """Every member calls its ``work(dice)`` over and over, ``times`` times or until :meth:`finish`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = Event()
        self._threads: list[Thread] = []
        self._errors: list[BaseException] = []

    def add(self, members: int, work: Work, times: int | None = None, begin: Callable[[], None] = lambda: None) -> None:
        """Start this number of members; each calls ``begin()`` first."""
        for _ in range(members):
            dice = random.Random(self._world.random.getrandbits(64))
            thread = Thread(target=self._repeat, args=(work, dice, times, begin), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _repeat(self, work: Work, dice: random.Random, times: int | None, begin: Callable[[], None]) -> None:
        done = 0
        try:
            begin()
            while not self._stop.is_set() and (times is None or done < times):
                work(dice)
                done += 1
        except NotKnown:
            pass  # told to end during an outage: the ledger says whether that call was accepted
        except BaseException as error:
            self._errors.append(error)
        finally:
            connections.close_all()

    def sleep(self, seconds: float) -> None:
        """Let a member wait, unless all are to stop."""
        self._stop.wait(seconds)

    @property
    def is_going_on(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def finish(self, patience: float = 60.0) -> None:
        """Tell all to stop, and wait for what they are at; the first of their errors is raised here."""
        self._stop.set()
        for thread in self._threads:
            thread.join(patience)
        if self._errors:
            raise self._errors[0]
