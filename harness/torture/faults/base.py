"""What a fault is."""

import pkgutil
import random
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING

from harness.torture.scenario import EVERYWHERE

if TYPE_CHECKING:
    from harness.torture.world import World


class Fault(ABC):
    """Something that happens to executors or the database. Injected and healed in the main thread, again and again.

    Attributes:
        kind: how it is counted, a few words: "executor killed (SIGKILL)".
        databases: where it can be injected.
        weight: how often the mix chooses it, relative to other faults; 0 for never.
        lasts: seconds (at most) that the mix waits between :meth:`inject` and :meth:`heal`.
        cuts_off: whether it may keep one executor from renewing its lease while others renew theirs.
    """

    kind: str
    databases: frozenset[str] = EVERYWHERE
    weight: float = 1.0
    lasts: float = 0.0
    cuts_off: bool = False

    @abstractmethod
    def inject(self, world: "World", chance: random.Random) -> bool:
        """Do it; False if there was nothing to do it to (then it is not counted)."""

    def heal(self, world: "World") -> None:
        """Undo the fault. Called after every :meth:`inject`, and once more at the end, so it must be idempotent."""
        return


_registered: list[Fault] = []


def in_mix(fault: type[Fault]) -> type[Fault]:
    """A class decorator: the mix uses it. Its constructor takes no arguments."""
    _registered.append(fault())
    return fault


def faults_of_mix(database: str) -> list[Fault]:
    """Return every fault that the mix can inject into this kind of database."""
    from harness.torture import faults as package

    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return [fault for fault in _registered if database in fault.databases and fault.weight > 0]
