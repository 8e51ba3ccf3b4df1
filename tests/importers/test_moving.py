"""How rows of other libraries become tasks."""

import pytest
from django.test import override_settings

from django_delayed_tasks.importers.moving import database, escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Prüfung 检查 'a' \"b\" \\", "Prüfung 检查 'a' \"b\" \\"), ("\x1b[2Ja\nb\u202e", r"\x1b[2Ja\nb\u202e")],
)  # fmt: skip
def test_a_terminal_is_sent_no_commands_of_a_row(text: str, shown: str) -> None:
    assert escaped(text) == shown


@override_settings(DELAYED_TASKS={"DATABASE": "of tasks"})
def test_the_database_is_that_of_the_settings() -> None:
    assert database() == "of tasks"
