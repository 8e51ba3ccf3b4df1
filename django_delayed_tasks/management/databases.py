"""What commands say of the databases of a project."""

from django.core.management.base import CommandError
from django.db import connections
from django.utils.translation import gettext as _


def refuse_unknown(alias: str | None, returncode: int = 1) -> None:
    """End the command if the project has no database of this alias; None is the tasks' database.

    Raises:
        CommandError: there is no such database; ``returncode`` is the exit code.
    """
    if alias is not None and alias not in connections:
        text = _("there is no database %(alias)r; the aliases are %(aliases)s")
        values = {"alias": alias, "aliases": ", ".join(connections)}
        raise CommandError(text % values, returncode=returncode)
