"""Model fields of this library: exact texts, JSON that need not be readable, triggers."""

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.query_utils import DeferredAttribute

from django_delayed_tasks.triggers import Trigger, parse_stored

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    CharField = models.CharField[str, str]
    TriggerBase = models.CharField[Trigger | str | None, Trigger | None]
else:
    CharField = TriggerBase = models.CharField


CODE_LENGTH, QUEUE_LENGTH, POOL_LENGTH = 50, 50, 50
"""Characters of a code, and of the name of a queue or a pool: short, since indexes with several of them must fit."""
RESERVED_POOLS = "ddt."
"""The prefix of the names of this library's own pools."""
EXACT_COLLATION = "utf8mb4_bin"
"""The collation on MariaDB and MySQL under which texts are equal only if every character is."""


class ExactCharField(CharField):
    """A CharField whose values are equal only if every character is.

    MySQL and MariaDB compare by a collation that ignores case (and accents) unless told otherwise; an identity must
    not depend on the database.
    """

    def db_parameters(self, connection: "BaseDatabaseWrapper") -> Any:
        parameters = super().db_parameters(connection)
        if connection.vendor == "mysql":
            parameters["collation"] = EXACT_COLLATION
        return parameters


class LaneField(ExactCharField):
    """The lane of a task, whose values every database sorts by their bytes: see ``store/sql/lanes.py``."""

    def db_parameters(self, connection: "BaseDatabaseWrapper") -> Any:
        parameters = super().db_parameters(connection)
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        return parameters


_STRING_OR_FLOAT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?e[+-]\d+')


def in_full(text: str) -> str:
    """Return the JSON text, which Python has written, without exponents: ``1e-05`` becomes ``0.00001``.

    Every database returns such numbers unchanged. PostgreSQL stores a number in a jsonb column as its decimal digits:
    ``1e+22`` comes back as an integer, and a few characters become hundreds. Written in full, a float stays a float,
    and its text keeps its length.
    """
    if "e+" not in text and "e-" not in text:
        return text
    return _STRING_OR_FLOAT.sub(lambda found: _in_full(found[0]), text)


def _in_full(token: str) -> str:
    if token.startswith('"'):
        return token
    digits = format(Decimal(token), "f")
    return digits if "." in digits else f"{digits}.0"


class InFull(json.JSONEncoder):
    """Python's JSON encoder, without exponents."""

    def encode(self, o: Any) -> str:
        return in_full(super().encode(o))


class AnyJSONField(models.JSONField):
    """A JSONField that returns the stored text for a value that it cannot parse, and keeps numbers exact.

    Django returns the text if it is not JSON, but Python raises other errors for numbers of thousands of digits and for
    thousands of nested levels. One such row must not keep the other rows of a query from being read. Numbers come back
    unchanged on every database.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **{**keywords, "encoder": InFull})

    def from_db_value(self, value: Any, expression: Any, connection: "BaseDatabaseWrapper") -> Any:
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, RecursionError):
            return value

    def deconstruct(self) -> Any:
        # Migrations name the field of Django: what is stored is the same.
        name, _, arguments, keywords = super().deconstruct()
        del keywords["encoder"]
        return name, "django.db.models.JSONField", arguments, keywords


class TriggerAttribute(DeferredAttribute):
    """The attribute of a trigger field: its text is parsed on access, so a row with an invalid one can be loaded."""

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        text = super().__get__(instance, cls)
        return parse_stored(text) if isinstance(text, str) else text

    def __set__(self, instance: Any, value: Trigger | str | None) -> None:
        instance.__dict__[self.field.attname] = _text_of(value)

    def text(self, instance: Any) -> str | None:
        """Return the text as it is stored, even if it cannot be parsed."""
        text: str | None = super().__get__(instance)
        return text


class TriggerField(TriggerBase):
    """A trigger, stored as its text. Reading the attribute raises InvalidTrigger if the text is not a valid trigger."""

    descriptor_class = TriggerAttribute

    def get_prep_value(self, value: Any) -> Any:
        return _text_of(value)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        return self.value_from_object(model_instance)

    def value_from_object(self, obj: models.Model) -> Any:
        return TriggerAttribute(self).text(obj)

    def deconstruct(self) -> Any:
        # Migrations name the field of Django: what is stored is the same.
        name, _, arguments, keywords = super().deconstruct()
        return name, "django.db.models.CharField", arguments, keywords


def _text_of(value: Any) -> Any:
    return str(value) if isinstance(value, Trigger) else value
