"""The base classes of all admins: the tasks' database, its clock, and lists that do not count all rows."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connections
from django.db.models import DateTimeField, Model, QuerySet
from django.db.models.expressions import RawSQL
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from django_delayed_tasks.admin.lists.changelist import NOT_STORABLE, BoundedChangeList
from django_delayed_tasks.admin.lists.columns import EMPTY, duration_text
from django_delayed_tasks.conf import settings
from django_delayed_tasks.store.sql.dialects import dialect_of

M = TypeVar("M", bound=Model)

KEY: Final = re.compile(r"[0-9]{1,18}")
"""What a primary key may look like."""
LOOKUP_KINDS: Final = ("", "exact", "in", "isnull", "gt", "gte", "lt", "lte")

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin
    AdminMixin = ModelAdmin[Any]
else:
    AdminMixin = object  # the admin that it is mixed into has the rest

    class ModelAdmin(admin.ModelAdmin):
        """Django's ``ModelAdmin``, made subscriptable."""

        def __class_getitem__(cls, _: Any) -> Any:
            return cls


class DeferredScript(Script):
    """A script that runs when the page has been read."""

    def __init__(self, path: str) -> None:
        super().__init__(path, defer=True)


class DatabaseAdmin(ModelAdmin[M]):
    """An admin for rows of the tasks' database.

    Each row has ``database_now``, so that ages do not depend on this host's clock.
    """

    list_per_page = 100
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    empty_value_display = EMPTY
    lookups: tuple[str, ...] = ()
    """Fields that a URL may filter the list by. Never data: a user who can query
    ``?biz_ext__token__startswith=a`` can guess hidden values."""

    class Media:
        css = {"all": ["django_delayed_tasks/admin.css"]}
        js = [DeferredScript("django_delayed_tasks/admin.js")]

    def get_queryset(self, request: HttpRequest) -> "QuerySet[M]":
        alias = settings.DATABASE
        now = RawSQL(dialect_of(connections[alias]).now, [], output_field=DateTimeField())
        rows: Any = super().get_queryset(request).using(alias)
        annotated: QuerySet[M] = rows.annotate(database_now=now)
        return annotated

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        name, _separator, kind = lookup.partition("__")
        if any(field.name == name for field in self.opts.get_fields()):
            return name in self.lookups and kind in LOOKUP_KINDS
        return super().lookup_allowed(lookup, value, request)  # for example, the name of a filter

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> M | None:
        try:
            found: M | None = super().get_object(request, object_id, from_field)
        except NOT_STORABLE:
            return None
        return found

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Django would take a datetime in the URL as a string, which its own widgets cannot show.
        given = super().get_changeform_initial_data(request)
        moments = {field.name for field in self.opts.get_fields() if isinstance(field, DateTimeField)}
        return {name: value for name, value in given.items() if name not in moments}

    def response_action(
        self, request: HttpRequest, queryset: "QuerySet[M]", *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        if not all(map(KEY.fullmatch, request.POST.getlist(ACTION_CHECKBOX_NAME))):
            raise BadRequest("the selection is not a list of primary keys")
        response: HttpResponse | None = super().response_action(request, queryset, *args, **kwargs)
        return response

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return BoundedChangeList


class ReadOnlyAdmin(DatabaseAdmin[M]):
    """An admin for viewing only."""

    is_logged = False
    """Whether Django's log has entries of these rows: without any, their pages have no button *History*."""

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        context["has_no_log"] = not self.is_logged
        return super().render_change_form(request, context, *args, **kwargs)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False


class OnePageAdmin(ReadOnlyAdmin[M]):
    """A page instead of a list and of the pages of its rows, whose addresses lead to it."""

    def change_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._to_the_page(request)

    def history_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._to_the_page(request)

    def _to_the_page(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        name = f"{self.opts.app_label}_{self.opts.model_name}_changelist"
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:{name}"))


def page_context(page: "admin.ModelAdmin[Any]", request: HttpRequest, title: str) -> dict[str, Any]:
    """Return the context for Django's template of a list, for a page that is not a list of rows."""
    return {
        **page.admin_site.each_context(request),
        "title": title,
        "opts": page.opts,
        "cl": {"opts": page.opts},
        "media": page.media,
        "actions_on_top": True,  # without it Django's template has a style that a strict policy refuses
    }


def database_now(row: Model) -> datetime:
    """Return the moment of the query that read this row, by the database's clock."""
    moment: datetime = getattr(row, "database_now")  # noqa: B009 (an annotation, unknown to the model)
    return moment


def ago_text(row: Model, moment: datetime | None) -> str:
    """Return how long before the query that read this row a moment was: "5 s ago"."""
    return EMPTY if moment is None else _("%s ago") % duration_text(database_now(row) - moment)
