"""The versions that a page showed: they travel with its form, and fence what is asked for by it."""

from collections.abc import Mapping

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.models import Task

NAME = "seen"
"""Of the hidden inputs."""

CHANGED = _("This task changed since the page was loaded, or is running: nothing was written. Load the page again.")


def mark(task: Task) -> str:
    """The value of the hidden input for a task."""
    return f"{task.pk}:{task.version}"


def versions(request: HttpRequest) -> Mapping[int, int]:
    """The versions that the posted form showed, by primary key; what is no such value is passed over."""
    found = {}
    for value in request.POST.getlist(NAME):
        key, _, version = value.partition(":")
        if key.isascii() and key.isdigit() and version.isascii() and version.isdigit():
            found[int(key)] = int(version)
    return found
