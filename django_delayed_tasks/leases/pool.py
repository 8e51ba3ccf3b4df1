"""A pool of resources, each of which is held by one at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import LeaseLost, ResourceUnavailable, UnknownPool
from django_delayed_tasks.leases import validation
from django_delayed_tasks.leases.acquiring import Request, acquire, has_passed
from django_delayed_tasks.leases.lease import Lease
from django_delayed_tasks.leases.pauses import LONGEST, Pauses
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import Wanted
from django_delayed_tasks.store.validation import valid_json

if TYPE_CHECKING:
    from django.db.models import QuerySet

DAY: Final = timedelta(days=1)
Valid = Callable[["LeasedResource"], object]


class Pool:
    """The resources of one pool: ``Pool("proxies")``. Making this object asks nothing of the database."""

    def __init__(self, name: str, *, quarantine: float | timedelta = DAY, using: str | None = None) -> None:
        """``quarantine`` is for how long an invalid resource is put aside: seconds or a timedelta.

        Raises:
            InvalidTask: a value that cannot be accepted.
        """
        self.name = validation.valid_pool(name)
        self.quarantine = validation.valid_quarantine(quarantine)
        self._using = using

    @property
    def alias(self) -> str:
        """Of the database that the pool is in."""
        return self._using or settings.DATABASE

    def add(self, name: str, payload: Any = None) -> None:
        """A resource, free from now on, with a payload for its holders: any JSON value.

        One that exists gets the payload, and is otherwise left as it is: held, disabled, in quarantine.
        """
        valid_json(payload, settings.MAX_BIZ_EXT_BYTES, "payload")
        resources.add(self.alias, self._wanted(name), payload)

    def remove(self, name: str) -> bool:
        """The resource is gone; its holder loses it. False if there was none."""
        return resources.remove(self.alias, self._wanted(name))

    def disable(self, name: str) -> bool:
        """Nobody gets the resource any more; its present holder keeps it. False if there is none."""
        return resources.enable(self.alias, self._wanted(name), False)

    def enable(self, name: str) -> bool:
        """The end of :meth:`disable`. False if there is none."""
        return resources.enable(self.alias, self._wanted(name), True)

    def resources(self) -> "QuerySet[Resource]":
        """Its rows, by name."""
        return Resource.objects.using(self.alias).filter(pool=self.name).order_by("name")

    @contextmanager
    def lease(
        self, ttl: float | timedelta = 60, wait: float | timedelta | None = 30, valid: Valid | None = None
    ) -> Iterator["LeasedResource"]:
        """A resource, the least recently used one, held inside the block.

        Args:
            ttl: seconds or a timedelta, at least 0.1 s. It is renewed in the background; when this process dies, the
                resource is free again after so long.
            wait: seconds or a timedelta to wait for one; None for ever.
            valid: called with each resource before it is given; one for which it says False is put aside for the
                pool's ``quarantine``, and another is tried.

        Raises:
            ResourceUnavailable: there was none for so long.
            UnknownPool: nothing was ever added to this pool.
            InvalidTask: a value that cannot be accepted.
            TaskException: a transaction is open.
        """
        leased = LeasedResource(self, validation.valid_ttl(ttl), validation.valid_wait(wait), valid)
        leased.acquire()
        try:
            yield leased
        finally:
            leased.end()

    def _wanted(self, name: str) -> Wanted:
        return Wanted(self.name, validation.valid_name(name))


class LeasedResource:
    """A resource as its holder sees it; after :meth:`replace` another one."""

    def __init__(self, pool: Pool, ttl: timedelta, wait: float | None, valid: Valid | None) -> None:
        self.pool = pool
        self._ttl = ttl
        self._wait = wait
        self._valid = valid
        self._lease: Lease | None = None
        self._has_ended = False
        self.payload: Any = None

    @property
    def name(self) -> str:
        """Its name in the pool."""
        return self._held.name

    @property
    def token(self) -> int:
        """Grows with every acquisition of this resource; an outside system can refuse a smaller one."""
        return self._held.token

    @property
    def is_held(self) -> bool:
        """Whether nobody else can have it yet, as far as this process can tell without asking; costs nothing."""
        return self._lease is not None and self._lease.is_held

    def check(self) -> None:
        """Ask the database whether it is still held; LeaseLost if it is not."""
        self._held.check()

    @property
    def _held(self) -> Lease:
        if self._lease is None:
            raise LeaseLost(f"no resource of pool {self.pool.name!r} is held here")
        return self._lease

    def replace(self) -> None:
        """The resource broke: put it aside for the pool's ``quarantine``, and hold another one instead.

        Raises:
            ResourceUnavailable: there was no other one for as long as the first one was waited for; none is held now.
            LeaseLost: the block that it was held in has ended.
        """
        if self._has_ended:
            self._held.check()
        self._put_aside()
        self.acquire()

    def acquire(self) -> None:
        """Hold a valid resource; see :meth:`Pool.lease`."""
        deadline = None if self._wait is None else clock.monotonic() + self._wait
        refused: set[str] = set()
        while True:
            self._take(None if deadline is None else max(deadline - clock.monotonic(), 0.0))
            if self._is_valid():
                return
            name = self.name
            self._put_aside()
            if has_passed(deadline) and (self._wait or name in refused):  # without waiting, each is tried once
                raise ResourceUnavailable(
                    f"a resource of pool {self.pool.name!r} that is valid could not be had in time"
                )
            if name in refused:  # it is back already: all that are free were tried
                Pauses().sleep_for(LONGEST, deadline)
                refused.clear()
            refused.add(name)

    def _is_valid(self) -> bool:
        try:
            return self._valid is None or bool(self._valid(self))
        except BaseException:
            self.release()
            raise

    def _take(self, wait: float | None) -> None:
        alias = self.pool.alias
        request = Request(alias, Wanted(self.pool.name), self._ttl, wait)
        grant, found, begun = acquire(request, self._refuse_unknown)
        what = f"resource {found.name!r} of pool {self.pool.name!r}"
        self._lease = Lease(alias, self.pool.name, what, grant, found, self._ttl, begun)
        self.payload = found.payload
        if self._has_ended:  # while another thread replaced it
            self.release()

    def _refuse_unknown(self) -> bool:
        if not line.exists(self.pool.alias, Wanted(self.pool.name)):
            raise UnknownPool("pool", self.pool.name, "there is no such pool: nothing was added to it")
        return False

    def release(self) -> None:
        """Give back what is held, if anything is."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def end(self) -> None:
        """Give back what is held; from now on nothing is acquired any more."""
        self._has_ended = True
        self.release()

    def _put_aside(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.quarantine(self.pool.quarantine)
