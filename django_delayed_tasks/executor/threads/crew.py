"""Threads that may hang: one whose job does not end can be given up, and another one takes its place."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final, Generic, Protocol, TypeVar

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

J = TypeVar("J")
J_co = TypeVar("J_co", covariant=True)

IDLE: Final = 2.0
"""Seconds after which an idle thread checks that its connections still work."""


class Queue(Protocol[J_co]):
    """The interface of a queue that a crew takes its jobs from."""

    def get(self) -> J_co | None:
        """Wait for the next job and return it; None tells the calling thread to end."""

    def end(self) -> None:
        """Tell one thread to end, after what waits."""


class Jobs(SimpleQueue[J | None], Generic[J]):
    """The jobs of a crew that does them in the order in which they were put."""

    def end(self) -> None:
        """Tell one thread to end, after what waits."""
        self.put(None)

    def left(self) -> int:
        """Return how many jobs wait, although their crew was told to end."""
        return max(0, self.qsize() - 1)


class CrewThread(Thread, Generic[J]):
    """One thread of a crew: it does one job after the other, on connections of its own.

    Attributes:
        own: its connections.
        job: the job that it does now; None while it has none.
        began: the monotonic second at which it began that job.
        is_given_up: whether it is to end after that job.
    """

    own: kept_connections.OfThread

    def __init__(self, crew: "Crew[J]", name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._crew = crew
        self._lock = Lock()
        self._ended = 0.0
        self.job: J | None = None
        self.began = 0.0
        self.is_given_up = False

    @property
    def is_connected(self) -> bool:
        """Whether its own connection is open."""
        return hasattr(self, "own") and self.own.connection.connection is not None

    def busy_for(self) -> float:
        """Return for how many seconds it has done its current job; 0 if it has none."""
        return 0.0 if self.job is None else clock.monotonic() - self.began

    def run(self) -> None:
        crew = self._crew
        with kept_connections.of_thread(crew.alias) as own:
            self.own = own
            if crew.connects_first:
                self._connect()
            self._ended = clock.monotonic()
            while (job := crew.jobs.get()) is not None:
                self.began, self.job = clock.monotonic(), job
                try:
                    own.refresh(was_idle=self.began - self._ended > IDLE)
                    crew.do(self, job)
                except BaseException as error:
                    self._lose(job, error)
                job = None  # the next get() would keep its exception, and what the frames of the traceback hold
                if not self.rest():
                    return
        crew.jobs.end()  # for the next thread

    def _connect(self) -> None:
        """Open the connection, so that the first job need not wait for it; if that fails, the job tries again."""
        try:
            kept_connections.failure_to_open(self.own.alias)
        except BaseException:  # of a receiver of connection_created
            logger.exception("%s cannot connect", self.name)

    def _lose(self, job: J, error: BaseException) -> None:
        logger.exception("%s failed at %s", self.name, job)
        try:
            self._crew.lose(job, error)
        except BaseException:
            logger.exception("%s cannot tell what became of %s", self.name, job)

    def rest(self) -> bool:
        """Note that it has done its job, as far as others see; return False if it was given up before."""
        with self._lock:
            if self.job is not None:
                self.job, self._ended = None, clock.monotonic()
            return not self.is_given_up

    def give_up(self, job: J) -> bool:
        """Let it end after this job; return False if it has done it."""
        with self._lock:
            self.is_given_up |= self.job is job
            return self.is_given_up


class Crew(Generic[J]):
    """Up to ``size`` threads that take jobs from a queue; they keep their connections from one job to the next.

    Args:
        jobs: the queue.
        do: called with the thread and its job; ``str(job)`` names it in the log.
        lose: called with a job in or around which an error was raised.
        connects_first: whether a thread opens its connection as it starts, and not when a job uses it.
    """

    def __init__(
        self,
        name: str,
        alias: str,
        jobs: Queue[J],
        do: Callable[[CrewThread[J], J], None],
        lose: Callable[[J, BaseException], None] = lambda job, error: None,
        size: int = 1,
        connects_first: bool = False,
    ) -> None:
        self.alias = alias
        self.jobs = jobs
        self.do = do
        self.lose = lose
        self.size = size
        self.connects_first = connects_first
        self.threads: list[CrewThread[J]] = []
        self._name = name
        self._number = 0
        self._given_up: list[CrewThread[J]] = []
        self._is_finishing = False
        self._lock = Lock()

    def start(self) -> None:
        """Start threads until there are ``size`` of them, also in place of those that were given up."""
        while self.add():
            pass

    def add(self) -> bool:
        """Start one more thread; return False if there are ``size`` of them, or all are to end."""
        with self._lock:
            if len(self.threads) >= self.size or self._is_finishing:
                return False
            self._number += 1
            thread = CrewThread(self, f"{self._name}-{self._number}")
            thread.start()
            self.threads.append(thread)
            return True

    def busy(self) -> list[tuple[CrewThread[J], J]]:
        """Return the threads that do a job now, and their jobs."""
        return [(thread, job) for thread in list(self.threads) if (job := thread.job) is not None]

    def give_up(self, thread: CrewThread[J], job: J) -> bool:
        """Let a thread end after the job that it does; return False if it has just done it."""
        with self._lock:
            if thread not in self.threads or not thread.give_up(job):
                return False
            self.threads.remove(thread)
            self._given_up.append(thread)
            return True

    def lost(self) -> list[CrewThread[J]]:
        """Return the threads that were given up and still hang."""
        with self._lock:
            self._given_up = [thread for thread in self._given_up if thread.is_alive()]
            return self._given_up

    def finish(self, timeout: float) -> None:
        """End all threads after what waits, and wait for that up to ``timeout`` seconds."""
        deadline = clock.monotonic() + timeout
        with self._lock:
            if not self._is_finishing:
                self.jobs.end()
            self._is_finishing = True
        for thread in list(self.threads):
            thread.join(max(0.0, deadline - clock.monotonic()))
