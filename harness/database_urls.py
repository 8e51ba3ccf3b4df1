"""Database URLs, as in ``mysql://user:password@127.0.0.1:3306/name``, for Django's DATABASES."""

from typing import Any
from urllib.parse import quote, unquote, urlsplit

SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}
MYSQL_OPTIONS = {"charset": "utf8mb4", "isolation_level": "read committed"}

ENGINES = {
    "mysql": "django.db.backends.mysql",
    "seekdb": "harness.engines.oceanbase",
    "postgres": "django.db.backends.postgresql",
    "sqlite": "django.db.backends.sqlite3",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "mysql": MYSQL_OPTIONS,
    "seekdb": MYSQL_OPTIONS,
    "postgres": {},
    "sqlite": SQLITE_OPTIONS,
}


def parse(url: str) -> dict[str, Any]:
    """An entry of DATABASES for `url`; ValueError for a scheme that none of them has."""
    parts = urlsplit(url)
    if parts.scheme not in ENGINES:
        raise ValueError(f"{url!r} is no database URL: the scheme is one of {', '.join(ENGINES)}.")
    entry: dict[str, Any] = {
        "ENGINE": ENGINES[parts.scheme],
        "NAME": unquote(parts.path.removeprefix("/")),
        "OPTIONS": dict(OPTIONS[parts.scheme]),
    }
    if parts.scheme == "sqlite":
        return entry
    entry["USER"] = unquote(parts.username or "")
    entry["PASSWORD"] = unquote(parts.password or "")
    entry["HOST"] = unquote(parts.hostname or "")  # a path is a socket's
    entry["PORT"] = str(parts.port or "")
    return entry


def build(entry: dict[str, Any]) -> str:
    """The URL of an entry of DATABASES: the reverse of `parse`."""
    scheme = next(scheme for scheme, engine in ENGINES.items() if engine == entry["ENGINE"])
    name = quote(str(entry["NAME"]))
    if scheme == "sqlite":
        return f"sqlite:///{name}"
    account = f"{quote(entry['USER'], safe='')}:{quote(entry['PASSWORD'], safe='')}"
    place = quote(entry["HOST"], safe="") + (f":{entry['PORT']}" if entry["PORT"] else "")
    return f"{scheme}://{account}@{place}/{name}"
