"""The runs of one limited code in this process: their keys, their slots, and the slots that they have left free."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final, NamedTuple

from django_delayed_tasks.store.resources.slots import Slot
from django_delayed_tasks.store.sql.fences import Claim

MAX_KEYS: Final = 5000
"""Keys whose free slots are remembered; with more, all are forgotten, and looked for in the database."""


class InSlot(NamedTuple):
    """A run's key and its slot."""

    key: str
    slot: Slot


class LaneRuns:
    """Thread-safe: the lanes note the claims that they make, the settler those to which it hands slots on.

    A slot that a run has left is free until another executor takes it, which its version tells. The database may say
    that a slot is free before the end of its run is noted here: a claim that takes it then is its only holder.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._keys: dict[Claim, str] = {}
        self._slots: dict[Claim, Slot] = {}
        self._holders: dict[int, Claim] = {}
        self._free: defaultdict[str, dict[int, Slot]] = defaultdict(dict)

    def begin(self, keys: Mapping[Claim, str], slots: Mapping[Claim, Slot]) -> None:
        """Note new claims with their keys; ``slots`` has those that they have taken, as they were before."""
        with self._lock:
            for claim, key in keys.items():
                self._begin(claim, key, slots.get(claim))

    def _begin(self, claim: Claim, key: str, slot: Slot | None) -> None:
        self._leave(claim)  # a server that lost its last commits gives a version twice
        self._keys[claim] = key
        if slot is not None:
            if (ended := self._holders.get(slot[0])) is not None:
                del self._slots[ended]
            self._slots[claim], self._holders[slot[0]] = (slot[0], slot[1] + 1), claim

    def end(self, is_held: Callable[[Claim], bool]) -> list[str]:
        """Note which of the claims have ended; return their keys."""
        with self._lock:
            return [self._ended(claim) for claim in list(self._keys) if not is_held(claim)]

    def _ended(self, claim: Claim) -> str:
        key = self._keys.pop(claim)
        if slot := self._leave(claim):
            if len(self._free) >= MAX_KEYS:
                self._free.clear()
            self._free[key][slot[0]] = slot
        return key

    def _leave(self, claim: Claim) -> Slot | None:
        if slot := self._slots.pop(claim, None):
            del self._holders[slot[0]]
        return slot

    def in_slot(self, claim: Claim) -> InSlot | None:
        """Return the key and the slot of a claim; None if it has none."""
        with self._lock:
            slot = self._slots.get(claim)
            return None if slot is None else InSlot(self._keys[claim], slot)

    def hand_on(self, before: Claim, after: Claim, in_slot: InSlot) -> None:
        """Note that the second claim has taken the slot of the first one, which has ended."""
        with self._lock:
            self._leave(before)
            self._keys.pop(before, None)
            self._begin(after, *in_slot)

    def here(self) -> Counter[str]:
        """Return how many slots of each key runs of this process hold."""
        with self._lock:
            return Counter(self._keys[claim] for claim in self._slots)

    def take_free(self, key: str) -> list[Slot]:
        """Return the slots of the key that are remembered as free, and forget them."""
        with self._lock:
            return list(self._free.pop(key, {}).values())

    def put_back(self, free: Mapping[str, list[Slot]]) -> None:
        """Remember these slots as free."""
        with self._lock:
            self._free.update((key, {slot[0]: slot for slot in slots}) for key, slots in free.items() if slots)

    def has_free(self, key: str) -> bool:
        """Return whether free slots of the key are remembered."""
        return key in self._free

    def forget(self) -> None:
        """Forget which slots are free."""
        with self._lock:
            self._free.clear()
