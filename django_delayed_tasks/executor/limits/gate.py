"""The gate that claimed tasks pass on their way to the threads: tasks of limited handlers wait for permits here."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.head_of_level import HeadOfLevel
from django_delayed_tasks.executor.limits.permits import Granted, Permits
from django_delayed_tasks.executor.limits.waiting_room import LONGEST, PER_ROOM, SPAN, Waiting, WaitingRoom
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.deciding import raised
from django_delayed_tasks.executor.running.run import failed, refusal
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.handlers import TaskHandler, async_codes, find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, changed_meanwhile
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim

PATIENCE: Final = 2.0
"""Seconds that a claimed task waits for its permits. Then it is released, so that another executor can claim it, and so
that it can be cancelled or rescheduled like any pending task."""
LOOK_EVERY: Final = (0.1, 0.4)
"""Seconds between two attempts to get permits, at least and at most: they grow while none is granted. A permit that
this process gives back is noticed at once."""
IDLE: Final = 60.0
"""Seconds between two ticks while no task waits here; a task that arrives wakes the loop at once."""
SOON: Final = 0.25
"""Seconds before a released task becomes claimable again, unless its rate says when."""


class Gate:
    """Lets claimed tasks through once they have their permits.

    The poller calls :meth:`admit`; :meth:`tick` is one iteration of the gate's own loop. Both use the waiting rooms.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        held: Held,
        queue: RunQueue,
        database_clock: clock.DatabaseClock,
    ) -> None:
        self._options = options
        self._ttl = timedelta(seconds=options.lease)
        self._lease = lease
        self._held = held
        self.queue = queue
        self._clock = database_clock
        self._heads = HeadOfLevel(options.database, self)
        self._lock = Lock()
        self._arrived: list[ClaimedTask] = []
        self._rooms: dict[str, WaitingRoom] = {}
        self._pause = LOOK_EVERY[0]

    def admit(self, tasks: list[ClaimedTask]) -> None:
        """Take tasks that were claimed: deliver those of unlimited handlers at once, let the others wait."""
        limited = [task for task in tasks if (handler := find(task.biz_code)) and handler.is_limited]
        if not limited:
            self.queue.put(tasks)
            return
        self._held.park(task.claim for task in limited)
        with self._lock:
            self._arrived += limited
        self._held.wake_gate.set()
        waiting = set(limited)
        self.queue.put([task for task in tasks if task not in waiting])

    @property
    def is_empty(self) -> bool:
        """Whether no task waits here."""
        return not self._arrived and not any(list(self._rooms.values()))

    def narrow(self, request: ClaimRequest) -> ClaimRequest:
        """Exclude the codes of which enough tasks already wait here; others are postponed if they are in the way."""
        if not self._arrived and not self._rooms:  # no task of a limited handler has ever come here
            return request
        if not self._options.drain:  # a drain ends when nothing is due, so it would leave postponed tasks behind
            self._heads.clear(replace(request, limit=0))
        return replace(request, excluded=request.excluded | self.full())

    def full(self) -> frozenset[str]:
        """Return the codes of which no more tasks are to be claimed, since enough of them wait here."""
        with self._lock:
            arrived = Counter(task.biz_code for task in self._arrived)
            rooms = dict(self._rooms)
        full = {code for code, room in rooms.items() if room.is_full(arrived[code], self._at_a_time(code))}
        new = {code: count for code, count in arrived.items() if code not in rooms}
        return frozenset(full | {code for code, count in new.items() if count >= self._at_a_time(code)})

    def _at_a_time(self, code: str) -> int:
        """Return how many tasks of this code this process could run at a time."""
        return self._options.async_concurrency if code in async_codes() else self._options.threads

    def crowded(self) -> frozenset[str]:
        """Return the codes that have keys of which no more tasks may wait here."""
        return frozenset(code for code, room in list(self._rooms.items()) if room.full_keys())

    def has_to_wait(self, task: ClaimedTask) -> bool:
        """Return whether no more tasks with the key of this task may wait here."""
        room = self._rooms.get(task.biz_code)
        try:
            return room is not None and room.permits.key_of(task) in room.full_keys()
        except Exception:  # concurrency_key() failed; it fails the task when that is claimed
            return False

    def short_for(self, code: str) -> float:
        """Return for how many seconds there have been too few permits for tasks of this code."""
        room = self._rooms.get(code)
        return SPAN if room and (room.is_closed or room.full_keys()) else room.short_for if room else 0.0

    def speed(self, code: str) -> float:
        """Return how many tasks of this code get their permits per second in this process."""
        room = self._rooms.get(code)
        return room.speed if room else 0.0

    def tick(self) -> float:
        """Let through the tasks that get their permits; return the seconds until the next tick is worthwhile."""
        self._seat()
        granted = 0
        for room in list(self._rooms.values()):
            if len(room) and self._lease.may_claim:
                granted += self._serve(room)
            self._release_impatient(room)
        self._pause = LOOK_EVERY[0] if granted else min(self._pause * 1.5, LOOK_EVERY[1])
        opening = [seconds for room in list(self._rooms.values()) if (seconds := room.opens_in)]
        return IDLE if self.is_empty else min(self._pause, *opening) if opening else self._pause

    def take_back(self) -> list[ClaimedTask]:
        """Remove and return all waiting tasks: they will not be started."""
        with self._lock:
            taken, self._arrived = self._arrived, []
            for room in self._rooms.values():
                for waiting in room:
                    room.leave(waiting.task)
                    taken.append(waiting.task)
        return taken

    def _room_of(self, handler: TaskHandler) -> WaitingRoom:
        code = handler.get_biz_code()
        with self._lock:
            if code not in self._rooms:
                permits = Permits(self._options.database, handler, self._held, self._ttl)
                self._rooms[code] = WaitingRoom(handler, permits)
            return self._rooms[code]

    def _seat(self) -> None:
        """Move the tasks that arrived to their waiting rooms; each stays among the arrived until it is in one."""
        while first := self._arrived[:1]:
            task = first[0]
            handler = find(task.biz_code)
            if handler is None or not handler.is_limited:  # the handler has changed since the task came
                if self._has_left(task):
                    self._start([task])
                continue
            room = self._room_of(handler)
            try:
                key = room.permits.key_of(task)
            except BaseException as error:  # SystemExit in a handler must not end the executor's thread
                if self._has_left(task):
                    self._fail(task, room.handler, error)
                continue
            self._show_in(task, room, key)

    def _show_in(self, task: ClaimedTask, room: WaitingRoom, key: str) -> None:
        with self._lock:
            if task not in self._arrived:  # take_back() was quicker
                return
            self._arrived.remove(task)
            if has_place := self._options.drain or room.has_place(key):
                room.enter(task, key)
        if not has_place:
            self._put_back(room, [task], max(SOON, room.closed_for(key)))

    def _has_left(self, task: ClaimedTask) -> bool:
        with self._lock:
            is_here = task in self._arrived
            if is_here:
                self._arrived.remove(task)
            return is_here

    def _serve(self, room: WaitingRoom) -> int:
        self._refuse_late(room)
        granted = 0
        for _ in range(PER_ROOM):
            some = self._serve_once(room)
            granted += len(some.tasks)
            if not some.next_in or not room.permits.is_keyed:
                break  # otherwise tasks of exhausted keys may have been chosen in place of others
        return granted

    def _serve_once(self, room: WaitingRoom) -> Granted:
        is_async = room.handler.is_async
        most = self._held.room_on_loop if is_async else self._options.threads - self._held.unfinished
        candidates = room.candidates()
        if most <= 0 or not candidates:
            return Granted([])
        granted = room.permits.take(candidates, most)
        room.note_granted(granted.tasks, most)
        self._let_through(room, granted.tasks)
        for key, seconds in granted.next_in.items():
            self._close(room, key, seconds)
        return granted

    def _close(self, room: WaitingRoom, key: str, seconds: float) -> None:
        room.close(key, min(seconds, LONGEST))
        if seconds > PATIENCE and not self._options.drain:
            self._put_back(room, self._emptied(room, [one for one in room if one.key == key]), seconds)

    def _refuse_late(self, room: WaitingRoom) -> None:
        """End tasks that are too late to run before they use up a permit."""
        now = self._clock.now()
        late = {one.task: refused for one in room if (refused := refusal(one.task, room.handler, now))}
        for task in self._emptied(room, [one for one in room if one.task in late]):
            self._end(task, late[task])

    def _let_through(self, room: WaitingRoom, tasks: list[ClaimedTask]) -> None:
        try:
            changed = self._changed(room, tasks)
            through = self._emptied(room, [waiting for waiting in room if waiting.task in tasks])
        except BaseException:
            through = []
            raise
        finally:
            for task in tasks:
                if task not in through:  # take_back() was quicker, or the database does not answer
                    self._held.free_resource(task)
        self._start([task for task in through if task.claim not in changed])
        # Their runs have not begun, so a cancellation or a reschedule of the meantime takes effect.
        self._held.release(task for task in through if task.claim in changed)

    def _changed(self, room: WaitingRoom, tasks: list[ClaimedTask]) -> set[Claim]:
        """Return the claims of those tasks that callers cancelled or rescheduled while they waited."""
        recent = clock.monotonic() - LOOK_EVERY[0]
        waited = [one.task.claim for one in room if one.task in tasks and one.since <= recent]
        return changed_meanwhile(self._options.database, waited)

    def _start(self, tasks: list[ClaimedTask]) -> None:
        self._held.unpark(task.claim for task in tasks)
        self.queue.put(tasks)

    def _release_impatient(self, room: WaitingRoom) -> None:
        if self._options.drain:  # a drain ends when nothing is due, so it would leave postponed tasks behind
            return
        deadline = clock.monotonic() - PATIENCE
        if not room.short_for and room.last_granted > deadline:
            deadline = float("-inf")  # they wait for threads only, and get them
        # A rescued task does not wait here: if this process died too, the task would be blamed for it.
        impatient = [waiting for waiting in room if waiting.since < deadline or waiting.task.rescues]
        self._put_back(room, self._emptied(room, impatient))

    def _emptied(self, room: WaitingRoom, some: list[Waiting]) -> list[ClaimedTask]:
        with self._lock:
            still = {waiting.task for waiting in room}
            out = [waiting.task for waiting in some if waiting.task in still]
            for task in out:
                room.leave(task)
        return out

    def _put_back(self, room: WaitingRoom, tasks: list[ClaimedTask], seconds: float = SOON) -> None:
        """Release tasks; they become claimable again one after the other, the first after ``seconds``."""
        first, last = room.pause(seconds, len(tasks))
        for task in tasks:
            # Rounded, so that one statement settles many of them.
            self._held.release([task], timedelta(seconds=round(random.uniform(first, last), 1)))

    def _fail(self, task: ClaimedTask, handler: TaskHandler, error: BaseException) -> None:
        now = self._clock.now()
        self._end(task, failed(task, handler, raised(error), now, now, self._options.max_rescues))

    def _end(self, task: ClaimedTask, settlement: Settlement) -> None:
        self._held.unpark([task.claim])
        self._held.finish([task.claim])
        self._held.settle(settlement)
