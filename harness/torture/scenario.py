"""What a scenario is, and the list of them. A new one is a module in ``scenarios/``: nothing else has to be touched."""

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.torture.world import World

EVERYWHERE = frozenset({"sqlite", "mariadb", "mysql", "postgres", "galera"})
SERVERS = EVERYWHERE - {"sqlite"}
CLUSTERS = frozenset({"galera", "groupreplication", "patroni"})


@dataclass(frozen=True)
class Size:
    """The size of a scenario: ``tasks`` to accept, ``faults`` to inject, ``executors`` of ``threads`` threads each.

    ``extra`` is for what only one scenario needs.
    """

    tasks: int
    faults: int = 0
    executors: int = 2
    threads: int = 4
    extra: int = 0


class Scenario(ABC):
    """One way of torturing. An instance runs once, in a world of its own (fresh tables, no executors yet).

    Attributes:
        name: for ``--scenario``: lower case, hyphens.
        number: of the issue's list; 0 for none.
        title: one line, for people.
        sizes: "short" (a few seconds, part of the tests) and "full".
        databases: on which it makes sense.
        settings: DELAYED_TASKS of the executors, over ``cluster.FAST``.
        may_fail: whether tasks may end FAILED of codes other than those in ``codes.MAY_FAIL``.
    """

    name: str
    number: int = 0
    title: str
    sizes: Mapping[str, Size]
    databases: frozenset[str] = EVERYWHERE
    settings: Mapping[str, Any] = {}
    may_fail: bool = False

    @abstractmethod
    def run(self, world: "World") -> None:
        """Do it. Afterwards the runner heals every fault, drains, and checks the invariants; no need to do that here.

        What only this scenario can tell is reported with ``world.fact`` and ``world.violation``.
        """


_registered: dict[str, Scenario] = {}


def register(scenario: type[Scenario]) -> type[Scenario]:
    """A class decorator: from now on :func:`scenarios` has an instance of it."""
    _registered[scenario.name] = scenario()
    return scenario


def scenarios() -> list[Scenario]:
    """Return every scenario, in the order of their numbers."""
    from harness.torture import scenarios as package

    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return sorted(_registered.values(), key=lambda one: (one.number, one.name))
