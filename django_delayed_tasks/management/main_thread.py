"""A check for commands that handle signals, which Python allows only in the main thread of a process."""

from threading import current_thread, main_thread

from django.core.management.base import CommandError
from django.utils.translation import gettext as _


def require_main_thread(command: str, instead: str) -> None:
    """Raise CommandError unless this is the main thread; ``instead`` says what to do in other threads."""
    if current_thread() is not main_thread():
        text = _("%(command)s handles signals, which only the main thread of a process can: %(instead)s")
        raise CommandError(text % {"command": command, "instead": instead})
