"""Names with characters that a reader does not see are refused by the commands."""

import pytest
from django.core.management import CommandError, call_command

from django_delayed_tasks.exceptions import InvalidTask

pytestmark = pytest.mark.django_db

NAME = "A1\n2026 FORGED\x1b]0;title\x07\x9b2J\u202e"


def test_what_the_terminal_gives_is_refused() -> None:
    with pytest.raises(CommandError, match="is not shown as it is"):
        call_command("tasks", "add", "code", NAME)
    with pytest.raises(CommandError, match="is not shown as it is"):
        call_command("pausequeue", NAME)
    for option in ("--queues", "--exclude-queues", "--name"):
        with pytest.raises(CommandError, match=option.removeprefix("--").replace("-", "_")):
            call_command("starttask", option, "a\x1bb", "--drain")
    with pytest.raises((CommandError, InvalidTask), match="is not shown as it is"):
        call_command("runmutex", "a\x1bb", command=["true"])
