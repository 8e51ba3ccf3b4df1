"""Parts that several commands share: migrations, databases, the main thread, a question, columns."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import current_thread, main_thread
from unicodedata import east_asian_width

from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _

from django_delayed_tasks import api


def unapplied(alias: str) -> list[str]:
    """Return the names of this app's migrations that are not applied to the database.

    Raises:
        DatabaseError: the database cannot be reached.
    """
    executor = MigrationExecutor(connections[alias])
    targets = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "django_delayed_tasks"]
    return [migration.name for migration, _backwards in executor.migration_plan(targets)]


def migrate_first(alias: str) -> str:
    """Return the message that migrations are not applied to the database, "" if all are.

    Raises:
        DatabaseError: the database cannot be reached.
    """
    text = _("unapplied migrations on database %(alias)r: %(names)s. Run `manage.py migrate` first.")
    missing = unapplied(alias)
    return text % {"alias": alias, "names": ", ".join(missing)} if missing else ""


def text_of(error: Exception, using: str | None) -> str:
    """Return a command's text for an error: that of the error or, if migrations are missing, the advice to migrate."""
    alias = api.database(using)
    # A database that cannot be reached is not asked a second time, which may take as long again.
    if isinstance(error, Error) and connections[alias].connection is not None:
        with suppress(Exception):  # such as of another app's migrations: the error itself is told
            return migrate_first(alias) or str(error)
    return str(error)


def require_main_thread(command: str, instead: str) -> None:
    """Raise CommandError unless this is the main thread; ``instead`` says what to do in other threads."""
    if current_thread() is not main_thread():
        text = _("%(command)s handles signals, which only the main thread of a process can: %(instead)s")
        raise CommandError(text % {"command": command, "instead": instead})


def refuse_unknown(alias: str | None, returncode: int = 1) -> None:
    """End the command if the project has no database of this alias; None is the tasks' database.

    Raises:
        CommandError: there is no such database; ``returncode`` is the exit code.
    """
    if alias is not None and alias not in connections:
        text = _("there is no database %(alias)r; the aliases are %(aliases)s")
        values = {"alias": alias, "aliases": ", ".join(connections)}
        raise CommandError(text % values, returncode=returncode)


def confirm(command: BaseCommand, question: str, *, yes: bool) -> None:
    """Ask on the terminal; return if the answer is yes, or ``yes`` was given.

    Raises:
        CommandError: the answer is anything else, or there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(_("%s There is no terminal to ask on: pass --yes if that is intended.") % question)
    command.stderr.write(_("%s [y/N] ") % question, ending="")
    command.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError(_("nothing was changed"))


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a line for each row, with its cells below those of the other rows."""
    lines = [list(row) for row in rows]
    widths = [max(map(places, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(padded, line, widths)).rstrip() for line in lines]


def padded(text: str, width: int) -> str:
    """Return the text with spaces up to this number of places."""
    return text + " " * (width - places(text))


def places(text: str) -> int:
    """Return how many places a terminal takes for the text."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
