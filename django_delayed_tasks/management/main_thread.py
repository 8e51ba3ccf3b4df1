"""Commands that handle signals, which Python allows in the main thread of a process only."""

from threading import current_thread, main_thread

from django.core.management.base import CommandError


def require_main_thread(command: str, instead: str) -> None:
    """Raise CommandError in any other thread; ``instead`` says what to do there."""
    if current_thread() is not main_thread():
        raise CommandError(f"{command} handles signals, which only the main thread of a process can: {instead}")
