"""Pools of resources, each of which has one holder at a time."""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Self

from django.db.models import QuerySet

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, LeaseLost, ResourceUnavailable, UnknownPool
from django_delayed_tasks.leases import validation
from django_delayed_tasks.leases.acquiring import Contender, Request, Won, describe, has_passed, refuse_in_transaction
from django_delayed_tasks.leases.asynchronous import Cancelled, IsCancelled, in_thread, never
from django_delayed_tasks.leases.lease import Lease
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.leases.waiting import MAX_PAUSE, Pauses, reconnecting
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.line import LAST, View
from django_delayed_tasks.store.resources.resources import Details, WantedResource
from django_delayed_tasks.store.validation import valid_json

Valid = Callable[["LeasedResource"], object]
Where = Callable[[Any], object]

ROWS_A_SECOND: Final = 2000
"""The maximum number of rows that a waiting caller reads, apart from resources freed since its last look."""
_FAR_BACK: Final = View(resources.LOOK_AHEAD, True, [])
"""The view of a caller whom nothing fits: it is far from the front of the line, so its pauses grow to a second."""


class Chooser(Contender):
    """A caller that wants a resource whose payload it accepts.

    It does not stand in the wait queue, where it would hold up processes behind it while nothing that it wants is free.
    It looks at the free resources again and again.
    """

    def __init__(self, request: Request, when_busy: Callable[[], bool], where: Where) -> None:
        """Store the request, as :class:`Contender` does; ``where(payload)`` is true of the resources that are wanted.

        What it raises is passed on.
        """
        super().__init__(request, when_busy)
        self._where = where
        self._last = resources.BEFORE_ALL
        self._starts_again_at = 0.0

    def _accepts(self, found: Details) -> bool:
        return bool(self._where(found.payload))  # it may have changed since it was read

    def _stand_in_line(self, deadline: float | None) -> Won:
        return self._wait(LAST, Pauses(), deadline)

    def _try(self, place: int) -> tuple[Won | None, View]:
        """Take the first free resource that fits. The next look continues where this one ended.

        Now and then it begins again, since resources are added and enabled, and payloads change.
        """
        alias, pool = self._request.alias, self._request.wanted.pool
        if clock.monotonic() >= self._starts_again_at:
            self._last, self._starts_again_at = resources.BEFORE_ALL, clock.monotonic()
        page = [resources.BEFORE_ALL] * resources.LOOK_AHEAD
        while len(page) == resources.LOOK_AHEAD:
            if self._request.is_cancelled():
                raise Cancelled
            page = reconnecting(alias, lambda: resources.free_page_after(alias, pool, self._last))
            self._starts_again_at += len(page) / ROWS_A_SECOND
            for self._last in page:
                begun = clock.monotonic()
                if self._where(self._last.payload) and (grant := self._take((self._last.id, self._last.version))):
                    return (grant, begun), _FAR_BACK
        return None, _FAR_BACK


class Pool:
    """The resources of one pool: ``Pool("proxies")``. Creating this object does not query the database."""

    def __init__(
        self, name: str, *, quarantine: float | timedelta = timedelta(days=1), using: str | None = None
    ) -> None:
        """Name the pool; ``quarantine`` is how long an invalid resource is set aside, in seconds or as a timedelta.

        Raises:
            InvalidTask: a value is not accepted.
        """
        self.name = validation.valid_pool(name)
        self.quarantine = validation.valid_quarantine(quarantine)
        self._using = using

    @property
    def alias(self) -> str:
        """The alias of the database that the pool is in."""
        return self._using or settings.DATABASE

    def add(self, name: str, payload: Any = None) -> None:
        """Add a free resource, with a payload for its holders: any JSON value.

        A resource that exists gets the new payload, and is otherwise unchanged: held, disabled or in quarantine.
        """
        valid_json(payload, settings.MAX_BIZ_EXT_BYTES, "payload")
        resources.add(self.alias, self._wanted(name), payload)

    def remove(self, name: str) -> bool:
        """Delete the resource; its holder loses it. Return False if it does not exist."""
        return resources.remove(self.alias, self._wanted(name))

    def disable(self, name: str) -> bool:
        """Disable the resource: it gets no new holder; the present one keeps it. Return False if it does not exist."""
        return resources.enable(self.alias, self._wanted(name), False)

    def enable(self, name: str) -> bool:
        """Undo :meth:`disable`. Return False if the resource does not exist."""
        return resources.enable(self.alias, self._wanted(name), True)

    def resources(self) -> QuerySet[Resource]:
        """Return the rows of the pool's resources, ordered by name."""
        return Resource.objects.using(self.alias).filter(pool=self.name).order_by("name")

    def lease(
        self,
        ttl: float | timedelta = 60,
        wait: float | timedelta | None = 30,
        valid: Valid | None = None,
        *,
        at_most: float | timedelta | None = None,
        name: str | None = None,
        where: Where | None = None,
    ) -> "LeasedResource":
        """Return a context manager, for one ``with`` or ``async with``, that holds the least recently used resource.

        It yields itself.

        Args:
            ttl: seconds or a timedelta, at least 0.1 s. The lease is renewed in the background; if this process dies,
                the resource is free again after this time.
            wait: seconds or a timedelta to wait for a resource; None to wait without limit.
            valid: called with each resource before it is lent; a resource for which it returns False is set aside for
                the pool's ``quarantine``, and another one is tried.
            at_most: seconds or a timedelta for which a resource is renewed, counted from its acquisition by this host's
                monotonic clock: then it counts as lost, and is free at most ``ttl`` later. None for as long as the
                block runs.
            name: the resource of this name, and no other one.
            where: called with the payload of each resource that is free; one for which it returns False is left alone.
                Not together with ``name``.

        Raises:
            InvalidTask: a value is not accepted.
        """
        return LeasedResource(
            self,
            validation.valid_ttl(ttl),
            validation.valid_wait(wait),
            validation.valid_callback("valid", valid),
            validation.valid_at_most(at_most),
            self._chosen(name, where),
            validation.valid_callback("where", where),
        )

    def _chosen(self, name: str | None, where: Where | None) -> WantedResource:
        if name is None:
            return WantedResource(self.name)
        if where is not None:
            raise InvalidTask("where", where, "cannot be combined with a name")
        return self._wanted(name)

    def _wanted(self, name: str) -> WantedResource:
        return WantedResource(self.name, validation.valid_name(name))


class LeasedResource:
    """A resource as its holder sees it; after :meth:`replace`, a different one."""

    def __init__(
        self,
        pool: Pool,
        ttl: timedelta,
        wait: float | None,
        valid: Valid | None = None,
        at_most: float = math.inf,
        wanted: WantedResource | None = None,
        where: Where | None = None,
    ) -> None:
        self.pool = pool
        self._ttl = ttl
        self._wait = wait
        self._at_most = at_most
        self._valid = valid
        self._wanted = wanted or WantedResource(pool.name)
        self._where = where
        self._lease: Lease | None = None
        self._has_begun = self._has_ended = False
        self.payload: Any = None

    def __enter__(self) -> Self:
        """Acquire a resource.

        Raises:
            ResourceUnavailable: no resource was available during the wait.
            UnknownPool: no resource was ever added to this pool, or it has none of the name that is wanted.
            TaskException: a transaction is open.
            RuntimeError: this object was used already.
        """
        self._begin()
        self.acquire()
        return self

    async def __aenter__(self) -> Self:
        """Acquire a resource, as :meth:`__enter__` does, in a thread.

        ``valid`` and ``where`` are called in that thread.

        If the caller is cancelled meanwhile, the thread stops waiting, or gives back what it has got.
        """
        self._begin()
        await in_thread(self.acquire, lambda _: self.end())
        return self

    def _begin(self) -> None:
        if self._has_begun:
            raise RuntimeError(f"this lease of pool {self.pool.name!r} was used already; call lease() again")
        self._has_begun = True

    def __exit__(self, *error: object) -> None:
        """Give the resource back, and acquire no other one."""
        self.end()

    async def __aexit__(self, *error: object) -> None:
        """Release the resource in a thread, which does so even if the caller is cancelled."""
        await in_thread(lambda _: self.end())

    @property
    def name(self) -> str:
        """The name of the resource in the pool."""
        return self._held.name

    @property
    def token(self) -> int:
        """A number that grows with every acquisition of this resource; an outside system can refuse a smaller one."""
        return self._held.token

    @property
    def is_held(self) -> bool:
        """Whether no other process can hold it yet, as far as this process knows without a query; costs nothing."""
        return self._lease is not None and self._lease.is_held

    def check(self) -> None:
        """Ask the database whether the resource is still held; raise LeaseLost if it is not."""
        self._held.check()

    @property
    def _held(self) -> Lease:
        if self._lease is None:
            raise LeaseLost(f"no resource of pool {self.pool.name!r} is held here")
        return self._lease

    def replace(self) -> None:
        """Set the resource, which is broken, aside for the pool's ``quarantine``, and hold another one instead.

        Raises:
            ResourceUnavailable: no other resource was available within the block's ``wait``; none is held now.
            LeaseLost: the block has ended.
            TaskException: a transaction is open, whose rollback would lend the broken resource again.
        """
        if self._has_ended:
            self._held.check()
        refuse_in_transaction(self.pool.alias, "a resource cannot be replaced")
        self._put_aside()
        self.acquire()

    def acquire(self, is_cancelled: IsCancelled = never) -> None:
        """Acquire a valid resource; see :meth:`Pool.lease`."""
        deadline = None if self._wait is None else clock.monotonic() + self._wait
        refused: set[str] = set()
        while True:
            self._take(None if deadline is None else max(deadline - clock.monotonic(), 0.0), is_cancelled)
            if self._is_valid():
                return
            name = self.name
            self._put_aside()
            if has_passed(deadline) and (self._wait or name in refused):  # without waiting, each is tried once
                raise ResourceUnavailable(f"no valid resource of pool {self.pool.name!r} was available in time")
            if name in refused:  # it came a second time: all free resources were tried
                Pauses().sleep_for(MAX_PAUSE, deadline)
                refused.clear()
            refused.add(name)

    def _is_valid(self) -> bool:
        try:
            return self._valid is None or bool(self._valid(self))
        except BaseException:
            self.release()
            raise

    def _take(self, wait: float | None, is_cancelled: IsCancelled) -> None:
        alias = self.pool.alias
        request = Request(alias, self._wanted, self._ttl, wait, is_cancelled=is_cancelled)
        contender = (
            Chooser(request, self._refuse_unknown, self._where)
            if self._where
            else Contender(request, self._refuse_unknown)
        )
        grant, found, begun = contender.acquire()
        what = describe(WantedResource(self.pool.name, found.name))
        self._lease = Lease(alias, self.pool.name, what, grant, found, self._ttl, begun, self._at_most)
        self.payload = found.payload
        if self._has_ended:  # the block ended while another thread replaced the resource
            self.release()

    def _refuse_unknown(self) -> bool:
        if not line.exists(self.pool.alias, WantedResource(self.pool.name)):
            raise UnknownPool("pool", self.pool.name, "there is no such pool: no resource was ever added to it")
        if not line.exists(self.pool.alias, self._wanted):
            raise UnknownPool("name", self._wanted.name, f"pool {self.pool.name!r} has no such resource")
        return False

    def release(self) -> None:
        """Give back the resource, if one is held."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def renew_no_more(self) -> None:
        """Let the lease of the resource end within its ttl, or when it is given back."""
        if self._lease is not None:
            renewer.drop(self._lease)

    def end(self) -> None:
        """Give back the resource, if one is held, and acquire no more."""
        self._has_ended = True
        self.release()

    def _put_aside(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.quarantine(self.pool.quarantine)
