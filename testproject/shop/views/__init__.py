"""The pages. A form that is wrong is shown again with status 422, a refusal of the shop with status 409."""

from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict

INVALID = 422
REFUSED = 409


def posted(request: HttpRequest) -> QueryDict | None:
    """Return the data for a form: None if the page is only viewed."""
    return request.POST if request.method == "POST" else None


def page_of(request: HttpRequest, rows: "QuerySet[Any]", size: int = 20) -> Page[Any]:
    """The page that the address names; the nearest one when it names none that exists."""
    return Paginator(rows, size).get_page(request.GET.get("page"))
