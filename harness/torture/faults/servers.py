"""What happens to the database: killed and started again, its connections ended."""

import random
from typing import TYPE_CHECKING

from harness.torture.faults.base import Fault, in_mix
from harness.torture.scenario import SERVERS

if TYPE_CHECKING:
    from harness.torture.world import World


@in_mix
class Outage(Fault):
    """SIGKILL to the server, which is started again later. On SQLite the file is locked, longer than processes wait."""

    kind = "database away (SIGKILL of the server, or the file locked)"
    databases = SERVERS | {"sqlite"} - {"galera"}
    weight = 1.0
    lasts = 4.0
    cuts_off = True  # some reach the server again later than others

    def __init__(self) -> None:
        self._goes_on = False

    def inject(self, world: "World", chance: random.Random) -> bool:
        self._goes_on = True
        world.database.begin_outage()
        return True

    def heal(self, world: "World") -> None:
        if self._goes_on:
            world.database.end_outage()
            self._goes_on = False


@in_mix
class BackendsKilled(Fault):
    """Every connection is ended by the server."""

    kind = "all backends killed"
    databases = SERVERS
    weight = 2.0

    def inject(self, world: "World", chance: random.Random) -> bool:
        return world.database.kill_backends() > 0
