"""The versions that a page showed: they travel with its form, and fence what is asked for by it."""

import re
from collections.abc import Mapping

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.models import Task

NAME = "seen"
"""Of the hidden inputs."""

_MARK = re.compile(r"(\d{1,19}):(-?\d{1,19})", re.ASCII)

CHANGED = _("This task changed since the page was loaded, or is running: nothing was written. Load the page again.")


def mark(task: Task) -> str:
    """The value of the hidden input for a task."""
    return f"{task.pk}:{task.version}"


def versions(request: HttpRequest) -> Mapping[int, int]:
    """The versions that the posted form showed, by primary key; what is no such value is passed over."""
    marks = (_MARK.fullmatch(value) for value in request.POST.getlist(NAME))
    pairs = ((int(mark[1]), int(mark[2])) for mark in marks if mark)
    return {key: version for key, version in pairs if max(key, abs(version)) < 2**63}
