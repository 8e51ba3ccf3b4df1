"""A text column that compares exactly, on every database."""

from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    CharField = models.CharField[str, str]
else:
    CharField = models.CharField


class ExactCharField(CharField):
    """A CharField whose values are equal only if every character is.

    MySQL and MariaDB compare by a collation that ignores case (and accents) unless told otherwise; an identity must
    not depend on the database.
    """

    def db_parameters(self, connection: "BaseDatabaseWrapper") -> Any:
        parameters = super().db_parameters(connection)
        if connection.vendor == "mysql":
            parameters["collation"] = "utf8mb4_bin"
        return parameters
