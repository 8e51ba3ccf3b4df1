"""What is read while 20,000 limited tasks wait, half of them blocked by 1,000 keys: no more than what is claimed."""

from collections.abc import Callable
from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.agenda import blocked_levels, read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, look
from django_delayed_tasks.store.limits.claiming import Place, read_places
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.sql.lanes import open_lane
from harness.benchmarks import stock
from tests.store import verbs
from tests.store.fixtures import STRATEGIES
from tests.store.meters import UNIT, reads
from tests.store.verbs import ALIAS, HOUR

OPEN, BLOCKED, KEYS, FEW = 10_000, 10_000, 1_000, 20
LANE = open_lane("limited")


def test_what_is_read(live_db: str) -> None:
    """Each figure is what may be read: index entries and rows; some steps of its machine for each on SQLite."""
    unit = UNIT.get(live_db, 1)

    def excess(allowed: int, action: Callable[[], object]) -> tuple[int, int] | None:
        with reads() as meter:
            action()
        return None if meter.total <= allowed * unit else (meter.total, allowed * unit)

    stock.add_limited(0, OPEN, "limited", keys=KEYS)
    stock.add_limited(OPEN, OPEN + BLOCKED, "limited", keys=KEYS, are_blocked=True)
    for number in range(5 * FEW):
        verbs.add(str(number), -HOUR, queue="default")
    now = clock.host_now()
    known = KnownLevels({("", "default", 0): now - 2 * HOUR, (LANE, "default", 0): now - 30 * HOUR}, frozenset(), now)
    place = Place(LANE, "default", 0, now - 30 * HOUR)
    found = {
        "agenda": excess(10, lambda: read_agenda(ALIAS)),
        "agenda, known levels": excess(15, lambda: look(ALIAS, known)),
        **{
            name: excess(5 * FEW, lambda: verbs.claim(strategy, limit=FEW))  # noqa: B023
            for name, strategy in STRATEGIES.items()
        },
        "reap": excess(45 * FEW, lambda: reap(ALIAS, 3)),
        "limited": excess(2 * FEW, lambda: read_places(ALIAS, 1, {place: FEW})),
        "search": excess(3 * KEYS, lambda: blocked_levels(ALIAS)),
    }
    assert found == dict.fromkeys(found)
    assert len(blocked_levels(ALIAS)) == KEYS
    agenda = read_agenda(ALIAS)
    assert [(level.lane, level.queue) for level in (*agenda.levels, *agenda.lanes)] == [
        ("", "default"),
        (LANE, "default"),
    ]
    assert agenda.lanes[0].earliest < now - timedelta(hours=20)
    assert Task.objects.filter(lane__startswith="~").count() == BLOCKED
