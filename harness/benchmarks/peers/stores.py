"""An empty store for one measurement of a peer, removed afterwards."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.benchmarks.peers.environments import NotMeasured
from harness.benchmarks.peers.redis import Redis
from harness.database_urls import build, parse
from harness.servers.processes import ServerError


class Stores:
    """Further databases on the servers of the suite, and one Redis, which is started when it is first needed."""

    def __init__(self) -> None:
        self._redis: Redis | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._redis is not None:
            self._redis.stop()

    @contextmanager
    def empty(self, database: str, peer: str) -> Iterator[str]:
        """The URL of an empty store on ``database`` (sqlite, redis, mariadb, …); NotMeasured without a server."""
        if database == "redis":
            yield self._emptied_redis()
        elif database == "sqlite":
            with tempfile.TemporaryDirectory(
                prefix="ddt-peer-", dir=Path(os.environ.get("BENCH_FOLDER", tempfile.gettempdir())).resolve()
            ) as folder:
                yield f"sqlite:///{Path(folder) / 'peer.sqlite3'}"
        else:
            entry = parse(os.environ[f"DATABASE_URL_{database.upper()}"])
            name = f"{entry['NAME']}_{peer.replace('-', '_')}"
            _recreate(entry, name)
            try:
                yield build({**entry, "NAME": name})
            finally:
                _drop(entry, name)

    def _emptied_redis(self) -> str:
        try:
            redis = self._redis or self._start_redis()
        except ServerError as error:
            raise NotMeasured(str(error).splitlines()[0]) from error
        redis.ask("FLUSHALL")
        return redis.url

    def _start_redis(self) -> Redis:
        redis = Redis()
        redis.find()
        redis.prepare()
        redis.start()
        self._redis = redis
        return redis


def _recreate(entry: dict[str, Any], name: str) -> None:
    """NotMeasured when the account of the suite may not do so."""
    words = f'CREATE DATABASE "{name}"'
    if "postgres" not in entry["ENGINE"]:
        words = f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4"
    try:
        _drop(entry, name)
        _execute(entry, words)
    except Exception as error:  # of one of two drivers
        raise NotMeasured(f"no database of its own: {error}") from error


def _drop(entry: dict[str, Any], name: str) -> None:
    if "postgres" in entry["ENGINE"]:
        _execute(entry, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    else:
        _execute(entry, f"DROP DATABASE IF EXISTS `{name}`")


def _execute(entry: dict[str, Any], statement: str) -> None:
    """Execute the statement on a connection of its own to the database that the suite was given."""
    with _connection(entry) as connection:
        cursor = connection.cursor()
        cursor.execute(statement)


@contextmanager
def _connection(entry: dict[str, Any]) -> Iterator[Any]:
    """A connection of the driver, in autocommit."""
    account = {"host": entry["HOST"], "port": int(entry["PORT"]), "user": entry["USER"], "password": entry["PASSWORD"]}
    connection: Any
    if "postgres" in entry["ENGINE"]:
        import psycopg

        connection = psycopg.connect(dbname=entry["NAME"], autocommit=True, **account)
    else:
        import MySQLdb

        connection = MySQLdb.connect(database=entry["NAME"], autocommit=True, **account)
    try:
        yield connection
    finally:
        connection.close()
