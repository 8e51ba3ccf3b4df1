"""A process on one node that holds a mutex and resources again and again: ``python -m tests.galera.holders FOLDER``."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import django

from tests.leases.contenders import Contender, Notes

POOL, TTL = "licences", 3.0
HOLD = (0.0, 0.6)


class OfThePool(Contender):
    hold = HOLD

    def lease(self) -> AbstractContextManager[Any]:
        from django_delayed_tasks.leases import Pool

        return Pool(POOL).lease(ttl=TTL, wait=120)


class OfTheMutex(Contender):
    hold = HOLD

    def lease(self) -> AbstractContextManager[Any]:
        from django_delayed_tasks.leases import mutex

        return mutex("index", ttl=TTL, wait=120)


def main(folder: Path) -> None:
    notes = Notes(folder / "notes")
    contenders = [kind(folder, notes) for kind in (OfThePool, OfThePool, OfTheMutex)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join()


if __name__ == "__main__":
    django.setup()
    main(Path(sys.argv[1]))
