"""The test environment itself: the right server, a shared database, and awkward settings."""

import subprocess
import sys

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from harness import ROOT
from harness.database_urls import build, parse
from harness.servers.__main__ import KINDS
from tests.threads import in_thread

pytestmark = pytest.mark.django_db(transaction=True, available_apps=None)

COUNT_GROUPS = """
import django
django.setup()
from django.contrib.auth.models import Group
print(Group.objects.count())
"""


def is_mariadb() -> bool:
    return bool(getattr(connection, "mysql_is_mariadb", False))


def scalar(sql: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_server_is_the_one_asked_for(live_db: str) -> None:
    connection.ensure_connection()
    vendors = {
        "sqlite": ("sqlite", False),
        "mariadb": ("mysql", True),
        "mysql": ("mysql", False),
        "postgres": ("postgresql", False),
    }
    assert (connection.vendor, connection.vendor == "mysql" and is_mariadb()) == vendors[live_db]


def test_a_commit_outlives_a_killed_server(live_db: str) -> None:
    """Each commit reaches the kernel. Only benchmarks and the torture also wait for the disk."""
    checks: dict[str, tuple[str, set[object]]] = {
        "sqlite": ("PRAGMA journal_mode", {"wal"}),
        "mariadb": ("SELECT @@innodb_flush_log_at_trx_commit", {1, 2}),
        "mysql": ("SELECT @@innodb_flush_log_at_trx_commit", {1, 2}),
        "postgres": ("SHOW synchronous_commit", {"on"}),
    }
    sql, expected = checks[live_db]
    assert scalar(sql) in expected


def test_servers_are_durable_unless_it_is_said() -> None:
    assert all(kind().durable for kind in KINDS.values())


def test_zone_is_not_utc(live_db: str) -> None:
    """A statement that takes the zone of the server, or of this process, for UTC is hours wrong here."""
    offset = "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW())"
    checks: dict[str, tuple[str, set[object]]] = {
        "sqlite": ("SELECT strftime('%s', 'now', 'localtime') - strftime('%s', 'now')", {3600, 7200}),
        "mariadb": (offset, {19800}),
        "mysql": (offset, {19800}),
        "postgres": ("SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'", {"Asia/Kolkata"}),
    }
    sql, expected = checks[live_db]
    assert scalar(sql) in expected


def test_other_connection_sees_a_commit(live_db: str) -> None:
    Group.objects.create(name="committed")
    assert in_thread(Group.objects.count) == 1


def test_other_process_sees_a_commit(process_environment: dict[str, str]) -> None:
    Group.objects.create(name="committed")
    command = [sys.executable, "-c", COUNT_GROUPS]
    done = subprocess.run(command, env=process_environment, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ddt:p%40ss%3Aword@127.0.0.1:3307/shop",
        "postgres://ddt:ddt@127.0.0.1:5433/shop",
        "sqlite:////var/lib/shop.sqlite3",
    ],
)
def test_database_url_round_trip(url: str) -> None:
    assert build(parse(url)) == url


def test_unknown_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="oracle"):
        parse("oracle://a:b@127.0.0.1:1/c")
