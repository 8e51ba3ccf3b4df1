"""Character sets: which of this library's columns cannot store or distinguish every text, and the SQL to repair them.

On MariaDB and MySQL a column without a character set of its own gets that of its table, which is the database's. In old
projects this is often latin1 or utf8mb3. What such a column, or a database, cannot store is written with escapes.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from django.db import models, router
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.fields import EXACT_COLLATION, ExactCharField

CHARSET = "utf8mb4"

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


class TextColumn(NamedTuple):
    """A text column as the server describes it; if ``is_exact``, it must distinguish all texts.

    ``default`` is the text that the database stores if an INSERT does not name the column.
    """

    name: str
    type: str
    is_nullable: bool
    collation: str
    is_exact: bool
    is_json: bool
    default: str | None = None

    @property
    def holds_everything(self) -> bool:
        """Whether its character set includes all characters."""
        return self.collation.startswith(f"{CHARSET}_")

    @property
    def is_wrong(self) -> bool:
        """Whether texts may be refused, changed, or mistaken for others."""
        return not self.holds_everything or (self.is_exact and not self.collation.endswith("_bin"))

    @property
    def mended(self) -> str:
        """The correct definition of the column, as a clause of ALTER TABLE."""
        null = "NULL" if self.is_nullable else "NOT NULL"
        if self.is_json:  # on MariaDB a LONGTEXT with a check: declared as JSON it gets the right form of both
            return f"MODIFY `{self.name}` JSON {null}"
        collate = f" COLLATE {EXACT_COLLATION}" if self.is_exact else ""
        default = "" if self.default is None else f" DEFAULT '{self.default}'"
        return f"MODIFY `{self.name}` {self.type} CHARACTER SET {CHARSET}{collate} {null}{default}"


class TextTable(NamedTuple):
    """One of this library's tables and its text columns."""

    name: str
    collation: str
    columns: list[TextColumn]

    @property
    def wrong(self) -> list[TextColumn]:
        """The columns that need repair."""
        return [column for column in self.columns if column.is_wrong]

    @property
    def is_wrong(self) -> bool:
        """Whether the table needs :attr:`mended`, for one of its columns or for columns added later."""
        return bool(self.wrong) or not self.collation.startswith(f"{CHARSET}_")

    @property
    def mended(self) -> str:
        """The statement that repairs the table."""
        changes = [column.mended for column in self.wrong]
        return f"ALTER TABLE `{self.name}` {', '.join([*changes, f'DEFAULT CHARACTER SET {CHARSET}'])}"


def text_tables(connection: BaseDatabaseWrapper, rows: Iterable[type[models.Model]]) -> Iterator[TextTable]:
    """Yield the tables of these models that exist and that the routers let into this database, MariaDB or MySQL."""
    for model in (model for model in rows if router.allow_migrate_model(connection.alias, model)):
        table = model._meta.db_table
        found = _ask(connection, "TABLE_COLLATION", "TABLES", table)
        if found:
            yield TextTable(table, found[0][0], _columns(connection, model))


def _columns(connection: BaseDatabaseWrapper, model: type[models.Model]) -> list[TextColumn]:
    names = "COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLLATION_NAME"
    fields = {field.column: field for field in model._meta.local_concrete_fields}
    return [
        TextColumn(
            name, type_, nullable == "YES", collation,
            isinstance(fields[name], ExactCharField | models.JSONField), isinstance(fields[name], models.JSONField),
            default if isinstance(default := fields[name].db_default, str) else None,
        )
        for name, type_, nullable, collation in _ask(connection, names, "COLUMNS", model._meta.db_table)
        if collation is not None and name in fields
    ]  # fmt: skip


def _ask(connection: BaseDatabaseWrapper, what: str, where: str, table: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {what} FROM information_schema.{where} WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
            [table],
        )
        return list(cursor.fetchall())


def unstorable(text: str) -> str | None:
    """Return the problem with a text that no database can store; None if there is none."""
    if "\0" in text:
        return "contains a NUL character, which databases cannot store"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is not valid text"
    return None


def without_unstorable(text: str) -> str:
    """Return the text with what no database can store replaced: NULs, and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="backslashreplace").decode()


def in_ascii(text: str) -> str:
    """Return the text with escapes such as ``\\u652f`` in place of all characters that are not ASCII."""
    return text.encode("ascii", "backslashreplace").decode()


def json_with_escapes(text: str) -> str:
    """Return JSON text in ASCII whose value has escapes in its strings, where the original value has characters."""
    return _NOT_ASCII.sub(lambda found: json.dumps(in_ascii(found[0]))[1:-1], text)
