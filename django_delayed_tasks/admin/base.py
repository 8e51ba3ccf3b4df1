"""What the three admins share: the tasks' database, its clock, and lists that do not count."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.db import connections
from django.db.models import DateTimeField, Model, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest

from django_delayed_tasks import clock
from django_delayed_tasks.admin.changelist import BoundedChangeList
from django_delayed_tasks.admin.columns import EMPTY
from django_delayed_tasks.conf import settings

M = TypeVar("M", bound=Model)

LOOKUP_KINDS: Final = ("", "exact", "in", "isnull", "gt", "gte", "lt", "lte")

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin
else:

    class ModelAdmin(admin.ModelAdmin):
        """Django's, which cannot be subscripted."""

        def __class_getitem__(cls, _: Any) -> Any:
            return cls


class DatabaseAdmin(ModelAdmin[M]):
    """Rows of the tasks' database; each has ``database_now``, so that ages do not depend on this host's clock."""

    list_per_page = 100
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    empty_value_display = EMPTY
    lookups: tuple[str, ...] = ()
    """Fields that an address may narrow the list by. Never data: whoever may ask for
    ``?biz_ext__token__startswith=a`` can guess what is hidden."""

    class Media:
        css = {"all": ["django_delayed_tasks/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> "QuerySet[M]":
        alias = settings.DATABASE
        now = RawSQL(clock.sql_now(connections[alias]), [], output_field=DateTimeField())
        rows: Any = super().get_queryset(request).using(alias)
        annotated: QuerySet[M] = rows.annotate(database_now=now)
        return annotated

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        name, _, kind = lookup.partition("__")
        if any(field.name == name for field in self.opts.get_fields()):
            return name in self.lookups and kind in LOOKUP_KINDS
        return super().lookup_allowed(lookup, value, request)  # such as the name of a filter

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return BoundedChangeList


class ReadOnlyAdmin(DatabaseAdmin[M]):
    """For looking at."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False


def database_now(row: Model) -> datetime:
    """The moment of the query that read this row, by the database's clock."""
    moment: datetime = getattr(row, "database_now")  # noqa: B009 (an annotation, unknown to the model)
    return moment
