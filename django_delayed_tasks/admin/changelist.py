"""A list of a big table: one page is read, and rows are counted up to a bound."""

from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest

COUNTED: Final = 1000
"""Rows are counted no further than this."""


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
    def count(self) -> int:  # type: ignore[override]
        return self.known


class BoundedChangeList(ChangeList):
    """Reads its page and one row more; ``has_uncounted`` says that there are more rows than were counted.

    The last page's count is known from it. Otherwise rows are counted up to ``COUNTED``.
    """

    has_uncounted = False

    def get_results(self, request: HttpRequest) -> None:
        bottom = (self.page_num - 1) * self.list_per_page
        rows = list(self.queryset[bottom : bottom + self.list_per_page + 1])
        if self.page_num < 1 or (not rows and self.page_num > 1):
            raise IncorrectLookupParameters
        self.result_count = bottom + len(rows)
        if len(rows) > self.list_per_page:
            counted = self.queryset.order_by().values("pk")[: COUNTED + 1].count()
            self.has_uncounted = counted > COUNTED
            self.result_count = max(self.result_count, min(counted, COUNTED))
        self.result_list: Any = rows[: self.list_per_page]
        self._describe()

    def _describe(self) -> None:
        """What the templates ask for."""
        self.show_full_result_count = False
        # With a full count that equals the result's, "n results" is not shown beside the search box.
        self.full_result_count = self.result_count if self.has_uncounted else None
        self.show_admin_actions = True
        self.can_show_all = False
        self.multi_page = self.result_count > self.list_per_page
        self.paginator = KnownCountPaginator(self.list_per_page, self.result_count)
