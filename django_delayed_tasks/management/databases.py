"""What commands say of the databases of a project."""

from django.db import connections
from django.utils.translation import gettext as _


def no_database(alias: str) -> str:
    """Return the message that there is no database of this alias."""
    return _("there is no database %(alias)r; the aliases are %(aliases)s") % {
        "alias": alias,
        "aliases": ", ".join(connections),
    }
