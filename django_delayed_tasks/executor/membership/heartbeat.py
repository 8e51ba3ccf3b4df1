"""The heartbeat renews the lease, in a thread and on a connection of its own, so that no handler can delay it."""

import logging
from collections.abc import Callable

from django.db import DatabaseError

from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.threads import connections

logger = logging.getLogger(__name__)


class Heartbeat:
    """Renews one lease; :meth:`beat` is one iteration.

    ``was_declared_dead()`` is called when the lease ran out, so that other executors may have taken the claims;
    ``was_replaced()`` when, in addition, another executor has registered under this name.
    """

    def __init__(
        self, alias: str, lease: Lease, was_declared_dead: Callable[[], None], was_replaced: Callable[[], None]
    ) -> None:
        self._was_replaced = was_replaced
        self._alias = alias
        self._lease = lease
        self._was_declared_dead = was_declared_dead

    def beat(self) -> bool:
        """Renew the lease once; return whether it is held now."""
        try:
            if self._lease.renew():
                return True
            logger.error("executor %d was declared dead; it continues under a new id", self._lease.executor)
            self._was_declared_dead()
            self._lease.acquire()
            return True
        except NameInUse as error:
            logger.error("another executor registered under this name after this one was declared dead: %s", error)
            self._was_replaced()
            return False
        except DatabaseError as error:
            logger.warning("heartbeat failed: %s", error)
            connections.discard_unusable(self._alias)
            return False
