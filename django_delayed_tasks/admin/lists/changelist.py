"""A list of a big table: one page is read, and rows are counted up to a bound."""

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.paginator import Paginator
from django.db import DataError
from django.db.models import QuerySet
from django.http import HttpRequest

COUNTED: Final = 1000
"""Rows are counted no further than this."""

MOST_PAGES: Final = 100_000
NOT_STORABLE: Final = (OverflowError, ValueError, DataError)
"""What Django, drivers and databases say of a value that no column can hold."""


if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:  # Django's own is not subscriptable
    _Paginator = Paginator


class KnownCountPaginator(_Paginator):
    """Links to pages, for a count that was found otherwise."""

    def __init__(self, per_page: int, count: int) -> None:
        super().__init__((), per_page)
        self.known = count

    @property
    def count(self) -> int:
        return self.known


class BoundedChangeList(ChangeList):
    """Reads its page and one key more, which tells the last page's count; otherwise rows are counted up to ``COUNTED``.

    If there are more, ``more_than`` is a number of rows that there are more of.
    """

    more_than: int | None = None

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "QuerySet[Any]":
        if any("\0" in value for values in request.GET.lists() for value in (values[0], *values[1])):
            raise IncorrectLookupParameters  # no text of a database holds it, and not every driver says so politely
        return super().get_queryset(request, exclude_parameters)

    def get_ordering(self, request: HttpRequest, queryset: "QuerySet[Any]") -> Any:
        if ORDER_VAR in self.params:
            return super().get_ordering(request, queryset)
        # As the admin says and without the primary key that Django would append: the order is that of an index.
        return self.model_admin.get_ordering(request)

    def get_results(self, request: HttpRequest) -> None:
        try:
            self._get_results()
        except NOT_STORABLE:  # Django looks at what the address compares with only when it asks the database
            raise IncorrectLookupParameters from None

    def _get_results(self) -> None:
        if not 1 <= self.page_num <= MOST_PAGES:
            raise IncorrectLookupParameters
        bottom = (self.page_num - 1) * self.list_per_page
        keys = list(self.queryset.values_list("pk", flat=True)[bottom : bottom + self.list_per_page + 1])
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

    def _rows(self, keys: list[int]) -> list[Any]:
        # Keys come from an index alone. For whole rows MariaDB and MySQL may prefer to read and sort the table.
        rows = self.light(self.root_queryset.order_by().filter(pk__in=keys)).in_bulk() if keys else {}
        return [rows[key] for key in keys if key in rows]

    def light(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        """These rows with no more than the list shows."""
        return rows

    def _describe(self) -> None:
        """What the templates ask for."""
        self.show_full_result_count = False
        # "n results" stands beside the search box unless a full count equals the result's.
        is_narrowed = bool(self.query or self.has_active_filters)
        self.full_result_count = None if is_narrowed and self.more_than is None else self.result_count
        self.show_admin_actions = True
        self.can_show_all = False
        self.multi_page = self.result_count > self.list_per_page
        self.paginator = KnownCountPaginator(self.list_per_page, self.result_count)
