"""The versions that a page showed: they are submitted with its form, and fence its writes."""

import re
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

NAME = "seen"
"""The name of the hidden inputs."""

_MARK = re.compile(r"(\d{1,19}):(-?\d{1,19})", re.ASCII)

CHANGED = _("This task changed since the page was loaded, or is running: nothing was written. Load the page again.")


def mark(row: Any) -> str:
    """Return the value of the hidden input for a row."""
    return f"{row.pk}:{row.version}"


def versions(request: HttpRequest) -> Mapping[int, int]:
    """Return the versions that the submitted form showed, by primary key; malformed values are ignored."""
    marks = (_MARK.fullmatch(value) for value in request.POST.getlist(NAME))
    pairs = ((int(mark[1]), int(mark[2])) for mark in marks if mark)
    return {key: version for key, version in pairs if max(key, abs(version)) < 2**63}
