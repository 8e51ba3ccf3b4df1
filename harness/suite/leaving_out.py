"""Tests that need something which cannot be had here are left out by name: a plugin of pytest, and what it has noted.

A test that finds, or would install, what it needs raises CannotBeHad then, in a fixture or itself.
"""

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.servers.downloads import CannotBeHad

LEFT_OUT = "DDT_LEFT_OUT"
"""The variable of the environment that names the file into which processes of pytest write what they leave out."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Leave the test out if a fixture needs what cannot be had."""
    with _left_out_if_it_cannot_be_had(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Leave the test out if it needs what cannot be had."""
    with _left_out_if_it_cannot_be_had(item):
        return (yield)


@contextmanager
def _left_out_if_it_cannot_be_had(item: pytest.Item) -> Iterator[None]:
    try:
        yield
    except CannotBeHad as error:
        if place := os.environ.get(LEFT_OUT):
            name = f"{os.environ.get('DDT_DATABASE', 'sqlite')}: {item.nodeid}"
            with Path(place).open("a") as noted:
                noted.write(json.dumps([name, str(error)]) + "\n")
        pytest.skip(str(error))


def left_out(place: Path) -> dict[str, str]:
    """Return why tests were left out, by database and name, as noted in this file."""
    return dict(map(json.loads, place.read_text().splitlines())) if place.exists() else {}


def say(tests: Mapping[str, str]) -> None:
    """Name the tests that were left out, after the reasons: each in full, once, and then in a line."""
    for why in {_line(why): why for why in tests.values()}.values():
        print(f"\n{why}")
    if tests:
        print("\nLeft out, since what they need cannot be had here:")
    for name, why in tests.items():
        print(f"  {name}: {_line(why)}")


def _line(why: str) -> str:
    return why.partition("\n")[0]
