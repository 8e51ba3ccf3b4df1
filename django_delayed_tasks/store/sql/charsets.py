"""Character sets: which of our columns cannot hold, or tell apart, every text, and what mends them.

On MariaDB and MySQL a column without a character set of its own takes its table's, which is the database's. In old
projects that is often latin1 or utf8mb3.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.fields import EXACT_COLLATION, ExactCharField

CHARSET = "utf8mb4"


_SESSION = ("character_set_client", "character_set_connection", "character_set_results")


def narrow_session(connection: BaseDatabaseWrapper) -> str:
    """Through which character sets this connection passes texts, if it loses some; "" if it loses none."""
    if connection.vendor != "mysql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({', '.join(map(repr, _SESSION))})")
        return ", ".join(f"{name} = {value}" for name, value in cursor.fetchall() if value not in (CHARSET, ""))


class TextColumn(NamedTuple):
    """A text column as the server describes it; ``is_exact``: it must tell all texts apart."""

    name: str
    type: str
    is_nullable: bool
    collation: str
    is_exact: bool
    is_json: bool

    @property
    def holds_everything(self) -> bool:
        """Whether its character set has all characters."""
        return self.collation.startswith(f"{CHARSET}_")

    @property
    def is_wrong(self) -> bool:
        """Whether texts may be refused, changed, or taken for others."""
        return not self.holds_everything or (self.is_exact and not self.collation.endswith("_bin"))

    @property
    def mended(self) -> str:
        """Its definition as it should be."""
        null = "NULL" if self.is_nullable else "NOT NULL"
        if self.is_json:  # on MariaDB a LONGTEXT with a check: as JSON it gets both as they should be
            return f"MODIFY `{self.name}` JSON {null}"
        collate = f" COLLATE {EXACT_COLLATION}" if self.is_exact else ""
        return f"MODIFY `{self.name}` {self.type} CHARACTER SET {CHARSET}{collate} {null}"


class TextTable(NamedTuple):
    """A table of ours and its text columns."""

    name: str
    collation: str
    columns: list[TextColumn]

    @property
    def wrong(self) -> list[TextColumn]:
        """The columns that are to be mended."""
        return [column for column in self.columns if column.is_wrong]

    @property
    def is_wrong(self) -> bool:
        """Whether this table, or a column that it may get later, needs :attr:`mended`."""
        return bool(self.wrong) or not self.collation.startswith(f"{CHARSET}_")

    @property
    def mended(self) -> str:
        """The statement that mends it."""
        changes = [column.mended for column in self.wrong]
        return f"ALTER TABLE `{self.name}` {', '.join([*changes, f'DEFAULT CHARACTER SET {CHARSET}'])}"


def text_tables(connection: BaseDatabaseWrapper, rows: Iterable[type[models.Model]]) -> Iterator[TextTable]:
    """Those of the models' tables that exist, on MariaDB or MySQL."""
    for model in rows:
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
