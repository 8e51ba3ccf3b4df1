"""DATABASE_URL of the shop."""

import pytest

from testproject.databases import database


@pytest.mark.parametrize(
    ("url", "name"), [("sqlite:///shop.sqlite3", "shop.sqlite3"), ("sqlite:////var/shop%20one.db", "/var/shop one.db")]
)
def test_sqlite_is_a_file(url: str, name: str) -> None:
    entry = database(url)

    assert (entry["ENGINE"], entry["NAME"]) == ("django.db.backends.sqlite3", name)
    assert entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode = WAL" in entry["OPTIONS"]["init_command"]


@pytest.mark.parametrize(
    ("scheme", "engine"),
    [("mysql", "mysql"), ("mariadb", "mysql"), ("postgres", "postgresql"), ("postgresql", "postgresql")],
)
def test_servers_have_an_address(scheme: str, engine: str) -> None:
    entry = database(f"{scheme}://ada:p%40ss@db.example.org:4242/shop?connect_timeout=3")

    assert entry == {
        "ENGINE": f"django.db.backends.{engine}",
        "NAME": "shop",
        "USER": "ada",
        "PASSWORD": "p@ss",
        "HOST": "db.example.org",
        "PORT": "4242",
        "OPTIONS": {"connect_timeout": "3"},
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("oracle://host/shop", "unknown scheme 'oracle'"),
        ("shop.sqlite3", "unknown scheme ''"),
        ("mysql://host", "no database"),
    ],
)
def test_what_is_no_database_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        database(url)
