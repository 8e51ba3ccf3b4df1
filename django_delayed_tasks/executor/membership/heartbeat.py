"""The heartbeat renews the lease, in a thread and on a connection of its own, so that no handler can delay it."""

from threading import Event

from django.db import DatabaseError

from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Heartbeat:
    """Renews the lease of an executor; :meth:`beat` is one iteration.

    ``worn_out`` is set when the lease ran out and another executor has registered under this name since.
    """

    def __init__(self, options: ExecutorOptions, lease: Lease, worn_out: Event) -> None:
        self._alias = options.database
        self._period = options.heartbeat
        self._lease = lease
        self._worn_out = worn_out

    def beat(self) -> float:
        """Renew the lease once; return the seconds until the next renewal."""
        return self._period if self._renew() else min(1.0, self._period)

    def _renew(self) -> bool:
        try:
            if not self._lease.renew():
                logger.error("executor %d was declared dead; it continues under a new id", self._lease.executor)
                self._lease.acquire()
            return True
        except NameInUse as error:
            logger.error("another executor registered under this name after this one was declared dead: %s", error)
            self._worn_out.set()
        except DatabaseError as error:
            logger.warning("heartbeat failed: %s", error)
            kept_connections.discard_unusable(self._alias)
        return False
