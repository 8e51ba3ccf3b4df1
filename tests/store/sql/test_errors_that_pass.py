"""Which errors of a database are worth another try, how often and how soon, and which will be the same next time."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connection,
)

from django_delayed_tasks.store.sql import transactions
from django_delayed_tasks.store.sql.dialects.mysql import MySQL
from django_delayed_tasks.store.sql.transactions import (
    TRIES,
    atomically,
    briefly,
    decisively,
    in_one_statement,
    is_lock_timeout,
    is_transient,
    is_transient_at_once,
    is_unwritable,
    pause,
)
from tests.store.verbs import ALIAS


class PostgresError(Exception):
    """An error as psycopg raises it: Django's error has it as its cause."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__("the server's words")
        self.sqlstate = sqlstate


def of_postgres(sqlstate: str) -> DatabaseError:
    error = OperationalError("the server's words")
    error.__cause__ = PostgresError(sqlstate)
    return error


def of_mysql(code: int) -> DatabaseError:
    error = OperationalError(code, "the server's words")
    error.__cause__ = Exception(code, "the server's words")
    return error


CONFLICTS = {
    "MySQL: deadlock": of_mysql(1213),
    "MariaDB: deadlock for AUTO_INCREMENT": of_mysql(1467),
    "MariaDB: the row has changed since it was read": of_mysql(1020),
    "MySQL: NOWAIT": of_mysql(3572),
    "MySQL: rolled back in group replication": of_mysql(3101),
    "Galera: the node is not ready": of_mysql(1047),
    "PostgreSQL: serialization failure": of_postgres("40001"),
    "PostgreSQL: deadlock": of_postgres("40P01"),
    "SQLite: busy": OperationalError("database is locked"),
    "SQLite: busy with a shared cache": OperationalError("database table is locked: tasks"),
}
LOCK_TIMEOUTS = {"MySQL": of_mysql(1205), "PostgreSQL": of_postgres("55P03")}
REFUSED = {
    1048: "NULL",
    1153: "larger than max_allowed_packet",
    1264: "out of range",
    1265: "truncated",
    1267: "mixed collations",
    1292: "a wrong value",
    1300: "a string that is not of its character set",
    1364: "no default",
    1366: "a character that the column cannot store",
    1406: "too long",
    3819: "a check",
    3854: "cannot be converted",
    4025: "a check, on MariaDB",
    3140: "not JSON",
    3141: "not JSON, in a function's argument",
    3157: "JSON nested too deep",
    3159: "the last about JSON",
}
PASSING = {
    "MySQL: gone away": of_mysql(2006),
    "MySQL: lost": of_mysql(2013),
    "MySQL: read-only": of_mysql(1290),
    "MySQL: unknown after appending a fragment": of_mysql(1180),
    "MySQL: before the errors about JSON": of_mysql(3139),
    "MySQL: after the errors about JSON": of_mysql(3160),
    "PostgreSQL: shut down": of_postgres("57P01"),
    "PostgreSQL: disk full": of_postgres("53100"),
    "of the driver": InterfaceError("connection already closed"),
    "without words": OperationalError(),
    "SQLite: disk full": OperationalError("database or disk is full"),
}


def cases(errors: Mapping[str, Exception]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("error", errors.values(), ids=map(str, errors))


@cases(CONFLICTS)
def test_a_conflict_may_not_happen_again(error: Exception) -> None:
    assert is_transient(error)
    assert is_transient_at_once(error)
    assert not is_lock_timeout(error)
    assert not is_unwritable(error)


@cases(LOCK_TIMEOUTS)
def test_a_lock_may_be_free_later_but_not_at_once(error: Exception) -> None:
    assert is_transient(error)
    assert is_lock_timeout(error)
    assert not is_transient_at_once(error)
    assert not is_unwritable(error)


@cases(PASSING)
def test_an_outage_takes_longer_and_is_no_refusal(error: Exception) -> None:
    assert not is_transient(error)
    assert not is_transient_at_once(error)
    assert not is_lock_timeout(error)
    assert not is_unwritable(error)


@cases({why: of_mysql(code) for code, why in REFUSED.items()})
def test_data_that_mysql_refuses_is_refused_again(error: Exception) -> None:
    assert is_unwritable(error)
    assert not is_transient(error)


@cases(
    {
        "data": DataError("value too long"),
        "integrity": IntegrityError("a check"),
        "the driver's encoding": UnicodeEncodeError("latin-1", "支", 0, 1, "no such character"),
    }
)
def test_data_that_others_refuse_is_refused_again(error: Exception) -> None:
    assert is_unwritable(error)
    assert not is_transient(error)


@pytest.mark.parametrize("error", [ValueError("database is locked"), ValueError(1205), ValueError(1213), ValueError()])
def test_what_no_database_said_is_none_of_these(error: Exception) -> None:
    assert not is_transient(error)
    assert not is_lock_timeout(error)
    assert not is_unwritable(error)


@pytest.mark.parametrize(
    ("code", "has_lost"),
    [(1213, True), (1467, True), (1020, True), (1206, True), (1614, True), (3101, True),
     (1062, False), (1047, False), (2006, False), (3572, False)],
)  # fmt: skip
def test_after_which_errors_mysql_has_rolled_the_transaction_back(code: int, has_lost: bool) -> None:
    assert MySQL(connection).has_lost_transaction(of_mysql(code)) is has_lost


@pytest.mark.skipif(connection.vendor != "mysql", reason="the server of MariaDB and MySQL is asked")
def test_after_a_lock_timeout_mysql_is_asked_whether_it_rolls_back(live_db: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@innodb_rollback_on_timeout")
        [rolls_back] = cursor.fetchone()
    assert MySQL(connection).has_lost_transaction(of_mysql(1205)) is bool(rolls_back)


def test_an_error_without_a_code_leaves_the_transaction() -> None:
    assert not MySQL(connection).has_lost_transaction(OperationalError())


def test_pauses_double_up_to_a_quarter_of_a_second_and_lose_up_to_half() -> None:
    for attempt, longest in {0: 0.002, 1: 0.004, 2: 0.008, 6: 0.128, 7: 0.25, 11: 0.25}.items():
        pauses = {pause(attempt) for _ in range(200)}
        assert longest / 2 <= min(pauses) < 0.6 * longest
        assert 0.9 * longest < max(pauses) <= longest


WAYS = [atomically, briefly, in_one_statement, decisively]


class Refusing:
    """Work that fails so many times, and then returns its answer; it counts its calls."""

    def __init__(self, times: int, error: Exception) -> None:
        self.calls = 0
        self._times = times
        self._error = error

    def __call__(self, cursor: Any) -> str:
        self.calls += 1
        cursor.execute("SELECT 1")
        if self.calls <= self._times:
            raise self._error
        return "the answer"


@pytest.fixture
def pauses(live_db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of each attempt after which there was a pause."""
    attempts: list[int] = []

    def note(attempt: int) -> float:
        attempts.append(attempt)
        return 0.0

    monkeypatch.setattr(transactions, "pause", note)
    yield attempts
    connection.close()  # briefly() leaves its limit with the connection


@pytest.mark.parametrize("way", WAYS)
class TestTries:
    def test_the_last_try_counts(self, way: Callable[..., str], pauses: list[int]) -> None:
        work = Refusing(TRIES - 1, of_mysql(1213))
        assert way(ALIAS, work) == "the answer"
        assert work.calls == TRIES == 12
        assert pauses == list(range(TRIES - 1))

    def test_there_is_an_end(self, way: Callable[..., str], pauses: list[int]) -> None:
        work = Refusing(TRIES, of_mysql(1213))
        with pytest.raises(OperationalError, match="1213"):
            way(ALIAS, work)
        assert work.calls == TRIES

    def test_what_would_fail_again_is_not_tried_again(self, way: Callable[..., str], pauses: list[int]) -> None:
        work = Refusing(1, ProgrammingError("syntax error"))
        with pytest.raises(ProgrammingError):
            way(ALIAS, work)
        assert (work.calls, pauses) == (1, [])

    def test_a_node_that_is_not_ready_is_left(self, way: Callable[..., str], pauses: list[int]) -> None:
        connection.ensure_connection()
        first = connection.connection
        conflicts, refusals = Refusing(1, of_mysql(1213)), Refusing(1, of_mysql(1047))
        assert way(ALIAS, conflicts) == "the answer"
        assert connection.connection is first
        assert way(ALIAS, refusals) == "the answer"
        assert connection.connection is not first


@pytest.mark.parametrize("way", [atomically, in_one_statement, decisively])
def test_callers_may_say_which_errors_pass(way: Callable[..., str], pauses: list[int]) -> None:
    work = Refusing(1, ProgrammingError("no such table"))
    assert way(ALIAS, work, lambda error: isinstance(error, ProgrammingError)) == "the answer"
    with pytest.raises(OperationalError):
        way(ALIAS, Refusing(1, of_mysql(1213)), lambda error: False)


def test_briefly_does_not_wait_for_a_lock_again(pauses: list[int]) -> None:
    work = Refusing(1, of_mysql(1205))
    with pytest.raises(OperationalError, match="1205"):
        briefly(ALIAS, work)
    assert work.calls == 1
    assert atomically(ALIAS, Refusing(1, of_mysql(1205))) == "the answer"
