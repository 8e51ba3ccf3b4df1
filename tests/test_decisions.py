"""The scripts that decisions were measured with still run; here in their smallest size, which shows no figures."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection

from harness.database_urls import build
from harness.settings import TEST_NAME
from tests.pages import ROOT

pytestmark = pytest.mark.per_database

DECISIONS = ROOT / "docs/decisions"
COMPARED = f"{TEST_NAME}_compare"


def run(script: str, *arguments: str) -> str:
    """Return what the script of a decision prints."""
    command = [sys.executable, str(DECISIONS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(settings.DDT_DATABASE != "sqlite", reason="the script is for SQLite")
@pytest.mark.parametrize("way", ["today", "plain", "turnstile", "constant"])
def test_writers_of_sqlite(way: str) -> None:
    printed = run("0026-no-ticket-on-sqlite/writers.py", way, "2", "0.3")
    assert re.match(rf"{way} +\d+ transactions/s, shares .*; the adder: \d+ rows, p50 .* ms\n$", printed), printed


@pytest.fixture
def compared() -> Iterator[str]:
    """The name of the database that the script makes."""
    yield COMPARED
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {COMPARED}")


@pytest.mark.skipif(settings.DDT_DATABASE not in ("mariadb", "mysql"), reason="the script is for MariaDB and MySQL")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seconds", [0.1, 0.000001], ids=["some are added", "none is added"])
def test_ways_to_add(compared: str, seconds: float) -> None:
    server = connection.settings_dict
    login = [f"--{name}={server[name.upper()]}" for name in ("host", "port", "user", "password")]
    size = ["--threads=2", f"--seconds={seconds}", "--kinds=churn"]
    printed = run("0002-add-by-upsert/compare.py", *login, f"--database={compared}", *size)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| churn")]
    assert [row[2][0] for row in rows] == [*"abcde"] * 2


@pytest.fixture
def narrow_tables() -> Iterator[None]:
    """What the script leaves behind goes."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS lean_task, lean_run, narrow_ready, narrow_held")


@pytest.mark.skipif(settings.DDT_DATABASE == "sqlite", reason="the script is for servers")
@pytest.mark.django_db(transaction=True)
def test_a_narrow_table_for_claims(narrow_tables: None) -> None:
    printed = run("0011-speed/narrow.py", build(connection.settings_dict), "250", "1").splitlines()
    assert re.fullmatch(r"1: lean [\d,]+, narrow [\d,]+", printed[0])
    assert re.fullmatch(r"tasks/s, medians: lean [\d,]+, narrow [\d,]+; narrow to lean \d+\.\d\d", printed[1])
