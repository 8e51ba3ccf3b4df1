"""What the demo prints at its end: how to continue with the shop."""

import os
import re

import pytest

from testproject.demo.preparing import where_to_look


def test_both_commands_are_printed_with_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DATABASE_URL", "sqlite:///shop.sqlite3")
    commands = re.findall(
        r"^  DATABASE_URL=sqlite:///shop\.sqlite3 \S+ testproject/manage\.py (.+)$", where_to_look(), re.M
    )
    assert commands == ["runserver", "starttask --reload"]


def test_no_password_of_a_server_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DATABASE_URL", "mysql://shop:secret@127.0.0.1/shop")
    assert "secret" not in where_to_look()
