"""Search by a part of the number."""

from typing import Any, TypeVar

from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model, QuerySet
from django.db.models.functions import Lower
from django.http import HttpRequest

M = TypeVar("M", bound=Model)


def containing(rows: "QuerySet[M]", fragment: str) -> "QuerySet[M]":
    """Return the rows whose ``biz_num`` contains the fragment, case-insensitively (the column is case-sensitive)."""
    lowered: Any = rows.alias(lowered=Lower("biz_num"))
    found: QuerySet[M] = lowered.filter(lowered__contains=fragment.strip().lower())
    return found


def is_searching(request: HttpRequest) -> bool:
    """Return whether the request searches the list."""
    return bool(request.GET.get(SEARCH_VAR, "").strip())
