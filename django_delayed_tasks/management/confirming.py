"""Questions before what cannot be undone."""

import sys

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from django_delayed_tasks.support.visible import visible


def confirm(command: BaseCommand, question: str, *, yes: bool) -> None:
    """Ask on the terminal; return if the answer is yes, or ``yes`` was given.

    Raises:
        CommandError: the answer is anything else, or there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(_("%s There is no terminal to ask on: pass --yes if that is intended.") % question)
    command.stderr.write(_("%s [y/N] ") % visible(question), ending="")
    command.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError(_("nothing was changed"))
