"""``DATABASE_URL`` as an entry of Django's ``DATABASES``."""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

ENGINES = {
    "sqlite": "django.db.backends.sqlite3",
    "mysql": "django.db.backends.mysql",
    "mariadb": "django.db.backends.mysql",
    "postgres": "django.db.backends.postgresql",
    "postgresql": "django.db.backends.postgresql",
}

LASTING = {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
"""Connections are used again for a minute, if the thread lives that long."""


def database(url: str) -> dict[str, Any]:
    """The settings of one database.

    ``sqlite:///file`` (``sqlite:////absolute/file``), or ``mysql://``, ``mariadb://`` or
    ``postgres://user:password@host:port/name``; what follows a ``?`` becomes OPTIONS.

    Raises:
        ValueError: an unknown scheme, or no name of a database.
    """
    parts = urlsplit(url)
    if parts.scheme not in ENGINES:
        raise ValueError(f"DATABASE_URL: unknown scheme {parts.scheme!r}; known are {', '.join(ENGINES)}")
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise ValueError(f"DATABASE_URL: no database is named in {parts.scheme}://…")
    if parts.scheme == "sqlite":
        return sqlite(name)
    return {
        "ENGINE": ENGINES[parts.scheme],
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": dict(parse_qsl(parts.query)),
        **LASTING,
    }


def sqlite(name: str) -> dict[str, Any]:
    """One file, shared by the web server and the executor.

    With a write-ahead log readers and the writer do not wait for each other. A transaction that is to write
    says so when it begins; one that finds out later fails at once when another has written meanwhile, however
    long the timeout.

    The log is not flushed at every commit: a power cut, though not the crash of a process, may take the last ones
    back. Where that must not be, leave ``synchronous`` at FULL.
    """
    return {
        "ENGINE": ENGINES["sqlite"],
        "NAME": name,
        **LASTING,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        },
    }
