"""Settles the runs that leave slots, in the settler's thread: the same transaction hands the slots to the next tasks.

So a slot is never free between two runs, and the next run waits for one commit only. What cannot be handed on becomes
free, and :class:`~django_delayed_tasks.executor.limits.lanes.Lanes` finds it.
"""

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.lane import Lane
from django_delayed_tasks.executor.limits.lanes import Lanes
from django_delayed_tasks.executor.limits.runs import InSlot
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.running.run import refusal
from django_delayed_tasks.executor.starting import Starting
from django_delayed_tasks.executor.unanswered_claims import UnansweredClaims
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import Outpaced
from django_delayed_tasks.store.limits.claiming import Place, claim_in_slots
from django_delayed_tasks.store.settling.settle import SettleResult, Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.lanes import open_lane
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class HandOver(NamedTuple):
    """One slot to hand on: from the claim ``before`` to the next task."""

    lane: Lane
    before: Claim
    after: ClaimedTask
    in_slot: InSlot


class Relay:
    """Hands slots on, and starts the next runs; after an error it rests until :meth:`resume`."""

    def __init__(
        self,
        alias: str,
        lease: Lease,
        held: Held,
        lanes: Lanes,
        starting: Starting,
        unanswered: UnansweredClaims,
        database_clock: clock.DatabaseClock,
    ) -> None:
        self._alias = alias
        self._unanswered = unanswered
        self._lease = lease
        self._held = held
        self._capacity = held.capacity
        self._lanes = lanes
        self._starting = starting
        self._clock = database_clock
        self._may_hand_on = True

    def hand_on(self, batch: list[Settlement]) -> SettleResult | None:
        """Settle in one transaction, without rows that stay locked for longer than a second; hand the slots on.

        Return None if there is no slot to hand on, or anything goes wrong with that: the runs are yet to be settled.
        """
        try:
            may_claim = self._may_hand_on and clock.monotonic() < self._lease.claims_until
            if may_claim and (hand_overs := self._hand_overs(batch)):
                return self._hand_on(batch, hand_overs)
        except Outpaced:
            pass
        except BaseException as error:  # of the database, of a handler's attributes: the runs have had their effects
            logger.warning("slots were not handed on: %s", error, exc_info=error)
            self._may_hand_on = False
            self._unanswered.note_lost()
            self._capacity.plain.wake.set()
        return None

    def resume(self) -> None:
        """Hand slots on again, since runs were settled without that."""
        self._may_hand_on = True

    def _hand_overs(self, batch: list[Settlement]) -> list[HandOver]:
        found: list[HandOver] = []
        room: dict[str, int] = {}
        limited = self._held.limited
        # A run that timed out may be there twice.
        for settlement in {one.claim: one for one in batch if one.claim in limited}.values():
            task = self._held.get(settlement.claim)
            lane = self._handing_on(task.biz_code) if task else None
            if lane is None or not (in_slot := lane.runs.in_slot(settlement.claim)):
                continue
            left = room.setdefault(lane.code, self._capacity.room_for(lane.handler))
            if left > 0 and (after := lane.stock.take(partial(self._may_start, lane))):
                found.append(HandOver(lane, settlement.claim, after, in_slot))
                room[lane.code] = left - 1
        return found

    def _handing_on(self, code: str) -> Lane | None:
        """Return the lane of this code if its runs may hand their slots on now: no other code lacks threads."""
        lane = self._lanes.get(code)
        if not lane or not lane.hands_on or not len(lane.stock) or self._capacity.limited.lacks_for_others(code):
            return None
        return lane

    def _may_start(self, lane: Lane, task: ClaimedTask) -> bool:
        """Return whether a task that was read may be claimed as things are now."""
        if task.executor != self._lease.executor or task.rescues or find(task.biz_code) is not lane.handler:
            return False
        place = Place(open_lane(lane.code), task.queue, task.priority)
        return self._lanes.serves(place) and not refusal(task, lane.handler, self._clock.now())

    def _hand_on(self, batch: list[Settlement], hand_overs: list[HandOver]) -> SettleResult:
        executor, began, claimed = hand_overs[0].after.executor, clock.monotonic(), list[ClaimedTask]()

        def claim_next(cursor: CursorWrapper, ended: Collection[Claim]) -> list[ClaimedTask]:
            chosen = [
                hand_over
                for hand_over in hand_overs
                if hand_over.before in ended and hand_over.after.executor == executor
            ]
            slots = {hand_over.after: hand_over.in_slot.slot for hand_over in chosen}
            return claim_in_slots(cursor, self._alias, executor, slots)

        try:
            with self._held.claiming.settler:
                ended = settle(self._alias, batch, Wait.A_SECOND, claim_next)
                self._held.add(ended.claimed, is_limited=True)
            claimed += ended.claimed
        finally:  # the lanes pass over what the stock has given, and would take their keys for empty
            for hand_over in hand_overs:
                if hand_over.after not in claimed:
                    hand_over.lane.stock.take_back([hand_over.after.claim])
        self._capacity.note_claim(clock.monotonic() - began)
        self._start([hand_over for hand_over in hand_overs if hand_over.after in claimed], began)
        return ended

    def _start(self, hand_overs: list[HandOver], began: float) -> None:
        tasks = [hand_over.after for hand_over in hand_overs]
        try:
            for hand_over in hand_overs:
                hand_over.lane.runs.hand_on(hand_over.before, hand_over.after.claim, hand_over.in_slot)
            self._starting.start_permitted(tasks, began)
        except BaseException:  # what was written is committed: the settler must not write it again
            logger.exception("starting %d %s failed; releasing them", len(tasks), plural(len(tasks), "task"))
            self._held.release(tasks)
