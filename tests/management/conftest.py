"""Fixtures: a code that tasks may have, and the commands as a script would call them."""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command

from django_delayed_tasks import Fail
from tests.executor.conftest import own_handlers  # noqa: F401
from tests.executor.parts import add, drain, handler_of


class Called(NamedTuple):
    """What a command has written, and its exit code."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]


@pytest.fixture
def call() -> Call:
    """``call(name, *arguments)``; a CommandError is raised, as its exit code would be 1."""

    def call(*arguments: str, **options: Any) -> Called:
        out, err, code = StringIO(), StringIO(), 0
        try:
            call_command(*arguments, stdout=out, stderr=err, **options)
        except SystemExit as end:
            code = int(end.code or 0)
        return Called(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def failed(transactional_db: None) -> None:
    """Two tasks that have failed, "1" and "2", and "3", which waits."""
    handler_of(lambda task: Fail("no money"), max_attempts=1)
    add("1")
    add("2")
    drain()
    add("3", when=timedelta(hours=1))
