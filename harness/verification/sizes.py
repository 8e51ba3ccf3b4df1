"""The sizes of the searches: small enough to visit every state, large enough for every race."""

from dataclasses import asdict, dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Size:
    """The constants of ``tasks.pml``.

    ``steady`` executors keep their lease, ``mortal`` ones may lose it at any moment and register again (``rebirths`` in
    all); ``calls`` are adds and cancels, ``claims`` the candidates that executors read, ``losses`` the answers of the
    database that get lost, ``rescues`` the orphans that ``reapers`` read, ``bulks`` the calls that may be adds in bulk.
    """

    steady: int
    mortal: int
    rebirths: int
    reapers: int
    calls: int
    claims: int
    rescues: int
    losses: int
    bulks: int = 0
    model: ClassVar[str] = "tasks.pml"

    def definitions(self) -> list[str]:
        """Return the constants as arguments of spin."""
        return [f"-D{name.upper()}={value}" for name, value in asdict(self).items()]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


@dataclass(frozen=True, slots=True)
class LanesSize:
    """The constants of ``lanes.pml``; ``changes`` are calls and retries."""

    executors: int = 2
    tasks: int = 2
    crashes: int = 1
    changes: int = 1
    model: ClassVar[str] = "lanes.pml"

    def definitions(self) -> list[str]:
        """Return the constants as arguments of spin."""
        return [f"-D{name.upper()}={value}" for name, value in asdict(self).items()]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


SMALL = Size(steady=1, mortal=1, rebirths=1, reapers=1, calls=2, claims=3, rescues=1, losses=1)

FULL: dict[str, Size | LanesSize] = {
    "two executors and a zombie": Size(2, 1, rebirths=1, reapers=1, calls=3, claims=3, rescues=2, losses=1),
    "two reapers at once": Size(2, 1, rebirths=1, reapers=2, calls=2, claims=3, rescues=2, losses=1),
    "two zombies": Size(1, 2, rebirths=1, reapers=1, calls=2, claims=3, rescues=1, losses=1),
    "many calls": Size(1, 1, rebirths=1, reapers=1, calls=4, claims=3, rescues=1, losses=1),
    "lost answers": Size(1, 1, rebirths=1, reapers=1, calls=2, claims=4, rescues=2, losses=2),
    "an add in bulk": Size(1, 1, rebirths=1, reapers=1, calls=4, claims=2, rescues=1, losses=1, bulks=1),
    "blocked tasks": LanesSize(),
}
