"""The local queue of the worker threads: claimed tasks, grouped into batches that are each run in one call.

Which of them is next is decided by the lines in which they wait. The batches of async handlers do not wait here: they
are run on the event loop.
"""

from collections.abc import Container, Iterable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Lock

from django_delayed_tasks.clock import monotonic
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.handlers import find, registry
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

REMEMBERED = 3600.0
"""Seconds for which a task of a broken batch is remembered."""


class BrokenBatches:
    """Tasks whose batch raised: for :data:`REMEMBERED` they are run one by one, even after they were given back."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, tasks: Iterable[ClaimedTask]) -> None:
        """Note tasks whose batch has just raised."""
        now = monotonic()
        self._until = {task_id: until for task_id, until in self._until.items() if until > now}
        self._until |= {task.id: now + REMEMBERED for task in tasks}

    def __contains__(self, task: object) -> bool:
        return isinstance(task, ClaimedTask) and self._until.get(task.id, 0.0) > monotonic()


class RunQueue:
    """The tasks that wait for a thread; thread-safe.

    Attributes:
        closed: set when no thread is to take any more.
    """

    def __init__(self, held: Held, awaited: AwaitedRuns) -> None:
        self._held = held
        self._capacity = held.capacity
        self._lines = held.capacity.lines
        self._awaited = awaited
        self._tickets: SimpleQueue[bool] = SimpleQueue()  # True for each batch that waits, False to end a thread
        self._broken = BrokenBatches()
        self._lock = Lock()
        self.closed = Event()
        self._last_taken = monotonic()

    def __len__(self) -> int:
        return self._tickets.qsize()

    def put(self, tasks: Iterable[ClaimedTask]) -> None:
        """Queue tasks that may start; release them if the queue is closed."""
        batches = batches_of(tasks, self._broken)
        if joining := [task.claim for batch in batches for task in batch[1:]]:
            self._capacity.join_batch(joining)
        self._put(batches)

    def put_permitted(self, tasks: Iterable[ClaimedTask]) -> None:
        """Like :meth:`put`, for tasks that hold permits."""
        self._put([[task] for task in tasks], are_permitted=True)

    def put_alone(self, tasks: Batch) -> None:
        """Queue the tasks of a batch whose call raised, to be run one by one."""
        self._broken.note(tasks)
        self._capacity.leave_batch(task.claim for task in tasks)
        self._put([[task] for task in tasks])

    def _put(self, batches: Sequence[Batch], are_permitted: bool = False) -> None:
        with self._lock:
            if not self.closed.is_set():
                here = self._without_awaited(batches) if registry.async_codes else batches
                self._lines.add(here, are_permitted)
                for _ in here:
                    self._tickets.put(True)
                return
        for batch in batches:
            self._held.release(batch)

    def _without_awaited(self, batches: Sequence[Batch]) -> list[Batch]:
        """Let the event loop run the batches of async handlers; return the others."""
        here: list[Batch] = []
        for batch in batches:
            if batch[0].biz_code in registry.async_codes:
                self._capacity.await_batch([task.claim for task in batch])
                self._awaited.put(batch)
            else:
                here.append(batch)
        return here

    def get(self) -> CurrentRun | None:
        """Wait for the next batch and return its run; None tells the calling thread to end."""
        has_batch = self._tickets.get()
        self._last_taken = began = monotonic()
        return CurrentRun(self._lines.take(), began) if has_batch else None

    def take_back(self) -> list[ClaimedTask]:
        """Remove and return all waiting tasks: they will not be started."""
        with self._lock:
            return [] if self.closed.is_set() else self._take_all()

    def take_back_stalled(self, seconds: float) -> list[ClaimedTask]:
        """Remove and return the waiting tasks if no thread took one for ``seconds``: other executors could run them."""
        is_stalled = monotonic() - self._last_taken >= seconds and not self._tickets.empty()
        return self.take_back() if is_stalled else []

    def close(self) -> None:
        """Release the waiting tasks, and those that are still to come."""
        with self._lock:
            tasks = [] if self.closed.is_set() else self._take_all()
            self.closed.set()
        self._held.release(tasks)

    def end(self) -> None:
        """Tell one thread to end; only after :meth:`close`."""
        self._tickets.put(False)

    def _take_all(self) -> list[ClaimedTask]:
        taken: list[ClaimedTask] = []
        while True:
            try:
                if self._tickets.get_nowait():
                    taken += self._lines.take()
            except Empty:
                return taken


def batches_of(tasks: Iterable[ClaimedTask], broken: Container[ClaimedTask] = ()) -> list[Batch]:
    """Return the tasks grouped for running: those of a handler with ``handle_batch`` together, the others one by one.

    A task that was rescued from a dead executor, or whose last attempt failed or hung, is run by itself too: it may be
    the cause, and must not take other tasks down with it again.
    """
    batches: list[Batch] = []
    open_ones: dict[str, Batch] = {}
    tasks = list(tasks)
    sizes = {code: _batch_size(code) for code in {task.biz_code for task in tasks}}
    for task in tasks:
        size = sizes[task.biz_code]
        if not size or task.rescues or task.attempts > 1 or task in broken:
            batches.append([task])
            continue
        batch = open_ones.get(task.biz_code)
        if batch is None or len(batch) >= size:
            batch = open_ones[task.biz_code] = []
            batches.append(batch)
        batch.append(task)
    return batches


def missing_in_batch(tasks: Sequence[ClaimedTask]) -> int:
    """Return how many more tasks would fill the last batch of ``tasks``.

    Return 0 if the tasks are not all of one code, or their handler runs them one by one.
    """
    code = tasks[0].biz_code
    size = _batch_size(code)
    return -len(tasks) % size if size and all(task.biz_code == code for task in tasks) else 0


def _batch_size(code: str) -> int:
    """Return how many tasks of a code may be run in one call; 0 if they are run one by one."""
    handler = find(code)
    return handler.batch_size if handler and handler.is_batched else 0
