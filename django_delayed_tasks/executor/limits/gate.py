"""Where claimed tasks pass on their way to the threads; those of limited handlers once they have their permits."""

import random
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Lock
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.deciding import Raised, decide, keeps
from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.executor.lease import Lease
from django_delayed_tasks.executor.limits.permits import Permits, give_back_resource
from django_delayed_tasks.executor.limits.room import LONGEST, Room, Waiting
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.screening import released
from django_delayed_tasks.executor.starting import is_over, refuse
from django_delayed_tasks.handlers import TaskHandler, find
from django_delayed_tasks.store import ClaimedTask, Settlement

PATIENCE: Final = 2.0
"""Seconds that a claimed task waits for its permits; then it is released, so that it can be claimed elsewhere, and
be cancelled, or given another time, like any task that waits."""
LOOK_EVERY: Final = 0.1
"""Seconds; what ends in this process is noticed at once."""
IDLE: Final = 60.0
SOON: Final = 0.25


class Gate:
    """:meth:`admit` is the poller's, :meth:`tick` one iteration of the gate's own loop; they share the rooms."""

    def __init__(
        self,
        options: ExecutorOptions,
        inflight: InFlight,
        lease: Lease,
        database_clock: clock.DatabaseClock,
        capacity: Callable[[], int],
        deliver: Callable[[list[ClaimedTask]], None],
        release: Callable[[list[Settlement]], None],
        settle: Callable[[Settlement], None],
    ) -> None:
        """``capacity()`` is for how many more runs there are threads; ``deliver(tasks)`` takes those that may run,
        ``release(settlements)`` those that have to wait elsewhere, ``settle(settlement)`` a failure.
        """
        self._options = options
        self._ttl = timedelta(seconds=options.lease)
        self._inflight = inflight
        self._lease = lease
        self._clock = database_clock
        self._capacity = capacity
        self._deliver = deliver
        self._release = release
        self._settle = settle
        self._lock = Lock()
        self._arrived: list[ClaimedTask] = []
        self._rooms: dict[str, Room] = {}
        self.sleeper = Event()

    def admit(self, tasks: list[ClaimedTask]) -> None:
        """These were claimed: those of handlers without limits are delivered at once, the others wait."""
        limited = [task for task in tasks if (handler := find(task.biz_code)) and handler.is_limited]
        if not limited:
            self._deliver(tasks)
            return
        self._inflight.park(task.claim for task in limited)
        with self._lock:
            self._arrived += limited
        self.sleeper.set()
        waiting = set(limited)
        self._deliver([task for task in tasks if task not in waiting])

    def wake(self) -> None:
        """Something ended here: look whether it was a permit."""
        if self._rooms:
            self.sleeper.set()

    @property
    def has_never_been_used(self) -> bool:
        """Whether no task with limits has come here."""
        return not self._arrived and not self._rooms

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here."""
        return not self._arrived and not any(self._rooms.values())

    def full(self) -> frozenset[str]:
        """Codes of which no more tasks are to be claimed, since enough of them wait here."""
        with self._lock:
            arrived = Counter(task.biz_code for task in self._arrived)
        codes = arrived.keys() | set(self._rooms)
        return frozenset(code for code in codes if self._room_of(code).is_full(arrived[code]))

    def crowded(self) -> frozenset[str]:
        """Codes with keys of which no more tasks may wait here."""
        return frozenset(code for code, room in list(self._rooms.items()) if room.full_keys())

    def has_to_wait(self, task: ClaimedTask) -> bool:
        """Whether its key is one of these."""
        room = self._room_of(task.biz_code)
        try:
            return room.permits.key_of(task) in room.full_keys()
        except Exception:  # which fails the task's own run, when it is claimed
            return False

    def speed(self, code: str) -> float:
        """How many tasks of this code get their permits in a second here."""
        return self._room_of(code).speed

    def tick(self) -> float:
        """Grant what can be granted; seconds until it is worth looking again."""
        self._seat()
        for room in list(self._rooms.values()):
            if len(room) and self._lease.may_claim:
                self._serve(room)
            self._release_impatient(room)
        return IDLE if self.is_empty else LOOK_EVERY

    def take_back(self) -> list[ClaimedTask]:
        """Empty the gate of tasks: these will not be started."""
        with self._lock:
            taken, self._arrived = self._arrived, []
            for room in self._rooms.values():
                for waiting in room:
                    room.leave(waiting.task)
                    taken.append(waiting.task)
        return taken

    def _room_of(self, code: str) -> Room:
        with self._lock:
            if code not in self._rooms:
                handler = find(code) or TaskHandler()
                self._rooms[code] = Room(handler, Permits(self._options.database, handler, self._ttl))
            return self._rooms[code]

    def _seat(self) -> None:
        """Show those that arrived to their rooms; each stays here until it is in one."""
        while self._arrived:
            task = self._arrived[0]
            room = self._room_of(task.biz_code)
            try:
                key = room.permits.key_of(task)
            except BaseException as error:  # SystemExit in a handler must not end the executor's thread
                if self._has_left(task):
                    self._fail(task, room.handler, error)
                continue
            with self._lock:
                if task not in self._arrived:  # take_back() was quicker
                    continue
                self._arrived.remove(task)
                if has_place := self._options.drain or room.has_place(key):
                    room.enter(task, key)
            if not has_place:
                self._put_back(room, [task])

    def _has_left(self, task: ClaimedTask) -> bool:
        with self._lock:
            is_here = task in self._arrived
            if is_here:
                self._arrived.remove(task)
            return is_here

    def _serve(self, room: Room) -> None:
        self._refuse_late(room)
        most = self._capacity()
        if most <= 0 or not len(room):
            return
        granted = room.permits.take({waiting.task: waiting.key for waiting in room}, most)
        self._let_through(room, granted.tasks)
        if granted.next_in and granted.next_in > PATIENCE and not self._options.drain:
            room.close(min(granted.next_in, LONGEST))
            self._put_back(room, self._emptied(room, list(room)), granted.next_in)

    def _refuse_late(self, room: Room) -> None:
        """What is too late to be run uses up no permit."""
        now = self._clock.now()
        for task in self._emptied(room, [one for one in room if is_over(one.task, room.handler, now)]):
            refused = refuse(task, room.handler, now)
            if refused is None:
                self._put_back(room, [task])
            else:
                self._end(task, refused._replace(keep=keeps(room.handler, refused.outcome)))

    def _let_through(self, room: Room, tasks: list[ClaimedTask]) -> None:
        through = self._emptied(room, [waiting for waiting in room if waiting.task in tasks])
        for task in tasks:
            if task not in through:  # take_back() was quicker
                give_back_resource(task)
        room.note_granted(len(through))
        self._inflight.unpark(task.claim for task in through)
        self._deliver(through)

    def _release_impatient(self, room: Room) -> None:
        if self._options.drain:  # which ends when nothing is due: what was put off would be left
            return
        deadline = clock.monotonic() - PATIENCE
        # One that was rescued before does not wait in a process that may die, too: it would count as its own fault.
        impatient = [waiting for waiting in room if waiting.since < deadline or waiting.task.rescues]
        self._put_back(room, self._emptied(room, impatient))

    def _emptied(self, room: Room, some: list[Waiting]) -> list[ClaimedTask]:
        with self._lock:
            still = {waiting.task for waiting in room}
            out = [waiting.task for waiting in some if waiting.task in still]
            for task in out:
                room.leave(task)
        return out

    def _put_back(self, room: Room, tasks: list[ClaimedTask], seconds: float = SOON) -> None:
        """Release these, to be claimed again one after the other from so many seconds on."""
        first, last = room.pause(seconds, len(tasks))
        self._release([released(task, timedelta(seconds=random.uniform(first, last))) for task in tasks])

    def _fail(self, task: ClaimedTask, handler: TaskHandler, error: BaseException) -> None:
        now = self._clock.now()
        raised = Raised(error, "".join(traceback.format_exception(error)))
        self._end(task, refuse(task, handler, now) or decide(task, handler, raised, now, now))

    def _end(self, task: ClaimedTask, settlement: Settlement) -> None:
        self._inflight.unpark([task.claim])
        self._inflight.finish(task.claim)
        self._settle(settlement)
