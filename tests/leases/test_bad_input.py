"""What cannot be accepted is named in the error, and nothing is written."""

import asyncio

import pytest

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.leases import Pool, mutex
from tests.leases.rows import POOL

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture
def pool() -> Pool:
    pool = Pool(POOL)
    pool.add("a")
    return pool


@pytest.mark.parametrize("name", ["", " a", "a" * 51, "ddt.mutex", "ddt.x", 1, None, "a\0"])
def test_names_of_pools(name: object) -> None:
    with pytest.raises(InvalidTask, match="pool="):
        Pool(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a ", "a" * 151, 1, None, "\ud800"])
def test_names_of_resources(pool: Pool, name: object) -> None:
    for call in (pool.add, pool.remove, pool.disable, pool.enable):
        with pytest.raises(InvalidTask, match="name="):
            call(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [object(), float("inf"), "\0", "x" * 70_000])
def test_payloads(pool: Pool, payload: object) -> None:
    with pytest.raises(InvalidTask, match="payload"):
        pool.add("d", payload)


@pytest.mark.parametrize(
    "values", [{"ttl": 0}, {"ttl": -1}, {"ttl": "60"}, {"ttl": True}, {"wait": -1}, {"ttl": None}, {"at_most": 0}]
)
def test_times(pool: Pool, values: dict[str, object]) -> None:
    [(field, value)] = values.items()
    with pytest.raises(InvalidTask, match=f"{field}={value!r}"), pool.lease(**values):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize(
    "values",
    [
        {"name": ""}, {"name": "a" * 151}, {"name": 3}, {"ttl": 0}, {"ttl": float("nan")}, {"ttl": 1e9}, {"wait": "1"},
        {"at_least": -1}, {"at_least": None}, {"at_least": "1"}, {"at_least": float("nan")}, {"at_least": 1e9},
        {"at_most": 0}, {"at_most": 0.05}, {"at_most": -1}, {"at_most": "1"}, {"at_most": 1e9}, {"at_most": True},
        {"at_most": 9, "at_least": 10},
        {"state": [1]}, {"state": {"a": object()}}, {"state": "x"}, {"on_standby": 5}, {"on_standby": asyncio.sleep},
    ],
)  # fmt: skip
def test_mutexes(values: dict[str, object]) -> None:
    field = next(iter(values))
    with pytest.raises(InvalidTask, match=rf"^{field}(\['a'\])?="):
        mutex(**{"name": "index", **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -5, "a day", None])
def test_quarantine(value: object) -> None:
    if value == 0:
        assert Pool(POOL, quarantine=0)
    else:
        with pytest.raises(InvalidTask, match=r"^quarantine="):
            Pool(POOL, quarantine=value)  # type: ignore[arg-type]


def test_inside_the_transaction_of_a_test_case(pool: Pool) -> None:
    """A project's own tests need no special care."""
    with pool.lease() as resource, mutex("index") as lease:
        resource.check()
        lease.check()
