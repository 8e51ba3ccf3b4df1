"""The promises with a dialect that is named on the command line, as one that is new would be.

``make test DATABASES=sqlite DIALECT=path.of.a.Dialect PYTEST=tests/store/sql/test_named_dialect.py``; without a name it
is the least dialect, on SQLite.
"""

import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection

from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.dialects.base import PATHS
from harness.suite.parts import PROMISES

LEAST = "tests.store.sql.least.Least"
TIMEOUT = 400.0  # seconds
MORE = ("tests/stats/test_survey.py", "tests/store/records/test_history.py", "tests/store/resources")
"""Tests of fragments that the promises do not reach."""


def test_the_dialect_is_the_one_that_is_named() -> None:
    used = type(dialect_of(connection))
    assert f"{used.__module__}.{used.__qualname__}" == (settings.DDT_DIALECT or PATHS[connection.vendor])


@pytest.mark.skipif(not settings.DDT_DIALECT and connection.vendor != "sqlite", reason="the least dialect is SQLite's")
@pytest.mark.timeout(TIMEOUT + 20)
def test_the_promises() -> None:
    name = f"{__file__}::{test_the_dialect_is_the_one_that_is_named.__name__}"
    result = subprocess.run(
        [sys.executable, "-m", "pytest", name, *PROMISES, *MORE, "-q", "-p", "no:cacheprovider"],
        env={**os.environ, "DDT_DIALECT": settings.DDT_DIALECT or LEAST},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert result.returncode == 0, result.stdout + result.stderr
