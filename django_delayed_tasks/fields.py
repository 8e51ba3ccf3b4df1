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


class AnyJSONField(models.JSONField):
    """A JSONField that gives what it cannot read as the text that it is, however it came there.

    Django does so with text that is no JSON; Python has errors of its own for numbers of thousands of digits and for
    nesting of thousands of levels. One such row must not keep the others of a query from being read.
    """

    def from_db_value(self, value: Any, expression: Any, connection: "BaseDatabaseWrapper") -> Any:
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, RecursionError):
            return value

    def deconstruct(self) -> Any:
        # To a migration it is Django's: what is stored is the same.
        name, _, arguments, keywords = super().deconstruct()
        return name, "django.db.models.JSONField", arguments, keywords
