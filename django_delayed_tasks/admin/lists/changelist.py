"""Lists of big tables: only one page is read, and rows are counted up to a bound."""

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.paginator import Paginator
from django.db import DataError
from django.db.models import QuerySet
from django.http import HttpRequest

from django_delayed_tasks.admin.lists.columns import names_of
from django_delayed_tasks.store.claiming.waiting import COUNTED

MAX_PAGES: Final = 100_000
"""Pages of a list: the database steps over the rows of those before the one that it reads."""
NOT_STORABLE: Final = (OverflowError, ValueError, DataError)
"""The errors of Django, drivers and databases for a value that no column can hold."""


if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:  # Django's own is not subscriptable
    _Paginator = Paginator


class KnownCountPaginator(_Paginator):
    """A paginator for a list whose count is already known."""

    def __init__(self, per_page: int, count: int) -> None:
        super().__init__((), per_page)
        self.known = count

    @property
    def count(self) -> int:
        return self.known


class BoundedChangeList(ChangeList):
    """A list that reads its page and one more key; the missing key shows that this page is the last.

    On other pages it counts rows up to ``COUNTED``. ``more_than`` is set to the bound if the count exceeds it.
    """

    more_than: int | None = None

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "QuerySet[Any]":
        if any("\0" in value for values in request.GET.lists() for value in (values[0], *values[1])):
            raise IncorrectLookupParameters  # no database stores this character, and drivers report it differently
        return super().get_queryset(request, exclude_parameters)

    def get_ordering(self, request: HttpRequest, queryset: "QuerySet[Any]") -> Any:
        if ORDER_VAR in self.params:
            return super().get_ordering(request, queryset)
        # The admin's ordering, without the primary key that Django would append: it follows an index.
        return self.model_admin.get_ordering(request)

    def get_ordering_field(self, field_name: Any) -> Any:
        # Django sorts by each column that an address names, also by those that the list does not offer.
        is_offered = self.sortable_by is None or field_name in self.sortable_by
        return super().get_ordering_field(field_name) if is_offered else None

    def get_results(self, request: HttpRequest) -> None:
        try:
            self._get_results(request)
        except NOT_STORABLE:  # Django validates the values in the URL only when it queries the database
            raise IncorrectLookupParameters from None

    def _get_results(self, request: HttpRequest) -> None:
        if not 1 <= self.page_num <= MAX_PAGES:
            raise IncorrectLookupParameters
        bottom = (self.page_num - 1) * self.list_per_page
        keys = self.keys(request, bottom, self.list_per_page + 1)
        if not keys and bottom:
            raise IncorrectLookupParameters
        self.result_count = bottom + len(keys)
        if len(keys) > self.list_per_page:
            counted = self.queryset.order_by().values("pk")[: COUNTED + 1].count()
            if counted > COUNTED:
                self.more_than = max(COUNTED, self.result_count - 1)
            self.result_count = max(self.result_count, min(counted, COUNTED))
        self.result_list: Any = self._rows(keys[: self.list_per_page])
        self._describe()

    def keys(self, request: HttpRequest, bottom: int, count: int) -> list[int]:
        """Return the keys of the rows of a page, and one more."""
        return list(self.queryset.values_list("pk", flat=True)[bottom : bottom + count])

    def _rows(self, keys: list[int]) -> list[Any]:
        # The keys come from an index alone. For whole rows, MariaDB and MySQL may read and sort the whole table.
        rows = self.light(self.root_queryset.order_by().filter(pk__in=keys)).in_bulk() if keys else {}
        return [rows[key] for key in keys if key in rows]

    def light(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        """Return these rows with only the columns that the list shows."""
        return rows

    def _describe(self) -> None:
        """Set the attributes that the templates read."""
        self.show_full_result_count = False
        # "n results" appears next to the search box unless the full count equals the result's.
        is_narrowed = bool(self.query or self.has_active_filters)
        self.full_result_count = None if is_narrowed and self.more_than is None else self.result_count
        self.show_admin_actions = True
        self.can_show_all = False
        self.multi_page = self.result_count > self.list_per_page
        self.paginator = KnownCountPaginator(self.list_per_page, self.result_count)


class NamingChangeList(BoundedChangeList):
    """A list whose rows get the names of their executors, found by one statement."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        names = names_of(self.result_list)
        for row in self.result_list:
            row.executor_name = names.get(row.executor)
