"""A failover as sessions see it: those that were opened while the old primary could still be reached are read-only."""

import random
from typing import TYPE_CHECKING

from django.db import connection, connections

from harness.torture.faults.base import Fault, in_mix
from harness.torture.faults.limits import PATIENCE, have_connection

if TYPE_CHECKING:
    from harness.torture.world import World


@in_mix
class Failover(Fault):
    """All sessions are ended, and those that are opened while it lasts stay read-only, also when it is over.

    Later ones can write: then the name of the database leads to the new primary.
    """

    kind = "failover (sessions that stay read-only)"
    databases = frozenset({"mariadb", "mysql", "postgres"})
    weight = 1.0
    lasts = 3.0
    cuts_off = True  # each has to notice by itself that its sessions are of no use

    def __init__(self) -> None:
        self._goes_on = False

    def inject(self, world: "World", chance: random.Random) -> bool:
        if not have_connection(PATIENCE):
            return False
        self._goes_on = True
        _let_new_sessions(be_read_only=True)
        return world.database.kill_backends() > 0

    def heal(self, world: "World") -> None:
        if self._goes_on:
            connection.close()  # it may be one of those
            _let_new_sessions(be_read_only=False)
            self._goes_on = False


def _let_new_sessions(be_read_only: bool) -> None:
    """Change what sessions begin with; those that are open keep what they have."""
    own = connections.create_connection("default")
    try:
        with own.cursor() as cursor:
            if own.vendor == "mysql":
                variable = "tx_read_only" if own.mysql_is_mariadb else "transaction_read_only"  # type: ignore[attr-defined]
                cursor.execute(f"SET GLOBAL {variable} = {int(be_read_only)}")
                return
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
            how = "SET default_transaction_read_only = on" if be_read_only else "RESET default_transaction_read_only"
            cursor.execute(f"ALTER DATABASE {own.ops.quote_name(own.settings_dict['NAME'])} {how}")
    finally:
        own.close()
