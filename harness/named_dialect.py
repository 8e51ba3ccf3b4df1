"""An app that has the tests use the dialect whose path DDT_DIALECT names, as ``make test DIALECT=path`` does."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db import connection


class NamedDialect(AppConfig):
    """Enters the dialect for the vendor of the default database, as one line in ``dialects/base.py`` would."""

    name = "harness.named_dialect"

    def ready(self) -> None:
        from django_delayed_tasks.store.sql.dialects import base

        paths: dict[str, Any] = base.PATHS
        paths[connection.vendor] = settings.DDT_DIALECT
