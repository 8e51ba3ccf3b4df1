"""The pages of resources and mutexes: their holders, and actions to disable, enable and release by force."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy

from django_delayed_tasks.admin.actions.row_actions import RowActions
from django_delayed_tasks.admin.actions.verbs import ALWAYS, Action
from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import ReadOnlyAdmin, ago_text, database_now
from django_delayed_tasks.admin.lists.changelist import BoundedChangeList
from django_delayed_tasks.admin.lists.columns import column, in_card, json_of
from django_delayed_tasks.admin.lists.filters import FOLDED
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Resource
from django_delayed_tasks.stats.resources import HIDDEN, pool_names
from django_delayed_tasks.store.resources import resources

DISABLE: Final = Action(
    partial(resources.enable_all, enabled=False),
    gettext_lazy("Disable these resources?"),
    ngettext_lazy("Yes, disable %(shown)s resource", "Yes, disable %(shown)s resources", "count"),
    gettext_lazy("No process can acquire them from now on. Their holders keep them."),
    gettext_lazy("disabled"),
    None,
)
ENABLE: Final = Action(
    partial(resources.enable_all, enabled=True),
    gettext_lazy("Enable these resources?"),
    ngettext_lazy("Yes, enable %(shown)s resource", "Yes, enable %(shown)s resources", "count"),
    gettext_lazy("Processes can acquire them again."),
    gettext_lazy("enabled"),
    None,
)
RELEASE: Final = Action(
    resources.release_by_force,
    gettext_lazy("Release these resources by force?"),
    ngettext_lazy("Yes, release %(shown)s resource", "Yes, release %(shown)s resources", "count"),
    gettext_lazy(
        "Their holders notice that at their next renewal or check, and other processes can acquire them at once."
    ),
    gettext_lazy("released"),
    ALWAYS,
)


class PoolFilter(SimpleListFilter):
    """Filters by pool; each pool is found by one index lookup."""

    title = gettext_lazy("pool")
    parameter_name = "pool"
    template = FOLDED

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterator[tuple[str, Any]]:
        found = {*pool_names(settings.DATABASE), *request.GET.getlist(self.parameter_name)} - {""}
        yield from ((pool, pool_label(pool)) for pool in sorted(found))

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset.filter(pool=self.value()) if self.value() else queryset


def pool_label(pool: str) -> str:
    """Return the name of the pool as it is displayed."""
    return str(_("mutexes")) if pool == resources.MUTEXES else pool


class ResourceChangeList(BoundedChangeList):
    """A list that does not read payloads and states."""

    def light(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        light: QuerySet[Any] = rows.defer("payload", "state")
        return light


@admin.register(Resource)
class ResourceAdmin(RowActions, ReadOnlyAdmin[Resource]):
    """The list of resources, by pool and name.

    Users with the permission to change resources can use the actions; no field can be edited.
    """

    is_logged = True
    list_display = ("name", "pool_", "lease", "enabled", "holding", "heartbeat")
    list_filter = (PoolFilter,)
    search_fields = ("name", "host")
    search_help_text = gettext_lazy("Part of the name or of the holder's host.")
    sortable_by = ("name",)
    lookups = ("id", "pool", "name", "enabled", "host", "pid")
    actions = ("disable", "enable", "release_by_force")
    needed = ("pool", "name", "version")
    changed_text = ngettext_lazy("%(shown)s resource was %(done)s.", "%(shown)s resources were %(done)s.", "count")
    unchanged_text = ngettext_lazy(
        "%(shown)s resource was left unchanged: it is free, or changed since the page was loaded.",
        "%(shown)s resources were left unchanged: free, or changed since the page was loaded.",
        "count",
    )
    fieldsets = (
        (None, {"fields": (("pool_", "name", "enabled"), ("state_", "until", "token"))}),
        (gettext_lazy("Holder"), {"fields": (("holder_", "since", "heartbeat"), ("task_id", "task_version"))}),
        (gettext_lazy("Data"), {"fields": ("payload_block", "state_block")}),
    )

    pool_ = column(gettext_lazy("pool"), lambda row: pool_label(row.pool))
    holder_ = in_card(
        gettext_lazy("holder"), lambda row: columns.named(f"{row.host}, {row.pid}") if has_holder(row) else None
    )
    since = in_card(
        gettext_lazy("since"), lambda row: columns.moment_text(row.acquired_at if has_holder(row) else None)
    )
    heartbeat = in_card(
        gettext_lazy("last heartbeat"), lambda row: ago_text(row, row.renewed_at if has_holder(row) else None)
    )
    until = in_card(gettext_lazy("busy until"), lambda row: columns.moment_text(busy_until(row)))
    token = in_card(gettext_lazy("token"), lambda row: row.version)
    payload_block = json_of(gettext_lazy("payload"), "payload")
    state_block = json_of(gettext_lazy("state"), "state")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return ResourceChangeList

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Resource]":
        return super().get_queryset(request).exclude(HIDDEN)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("pool", "name")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may use the actions."""
        allowed: bool = request.user.has_perm("django_delayed_tasks.change_resource")
        return allowed

    disable = DISABLE.method(gettext_lazy("Disable"), "operate")
    enable = ENABLE.method(gettext_lazy("Enable"), "operate")
    release_by_force = RELEASE.method(gettext_lazy("Release by force"), "operate")

    @admin.display(description=gettext_lazy("state"))
    def state_(self, row: Resource) -> SafeString:
        if row.busy_before <= database_now(row):
            return columns.badge(_("ran out"), "lost") if has_holder(row) else columns.badge(_("free"), "done")
        if row.holder == resources.KEPT:
            return columns.badge(_("kept"), "retried")
        return columns.badge(_("held"), "running") if row.holder else columns.badge(_("quarantine"), "retried")

    @admin.display(description=gettext_lazy("state"))
    def lease(self, row: Resource) -> SafeString | str:
        """Return the state, and until when."""
        until = busy_until(row)
        return columns.two_lines(self.state_(row), _("until %s") % columns.moment_text(until) if until else "")

    @admin.display(description=gettext_lazy("holder"))
    def holding(self, row: Resource) -> SafeString | str:
        """Return the holder, and since when."""
        since = _("since %s") % columns.moment_text(row.acquired_at) if has_holder(row) and row.acquired_at else ""
        return columns.two_lines(self.holder_(row), since)


def busy_until(row: Resource) -> datetime | None:
    """Return until when a resource is not free; None if it is."""
    return row.busy_before if row.busy_before > database_now(row) else None


def has_holder(row: Resource) -> bool:
    """Return whether the row names a holder: one that has the lease, let it run out, or keeps it for ``at_least``."""
    return bool(row.holder) and (row.holder != resources.KEPT or row.busy_before > database_now(row))
