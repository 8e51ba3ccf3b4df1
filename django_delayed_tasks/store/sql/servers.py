"""What each server is asked once in the life of this process."""

from collections.abc import Callable
from typing import Any, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")
_answers: dict[tuple[str, ...], Any] = {}


def asked_once(connection: BaseDatabaseWrapper, question: Callable[[BaseDatabaseWrapper], T]) -> T:
    """Return ``question(connection)``, which is called once for each server of each alias."""
    settings = connection.settings_dict
    key = (question.__qualname__, connection.alias, str(settings["HOST"]), str(settings["PORT"]))
    if key not in _answers:
        connection.ensure_connection()
        _answers[key] = question(connection)
    answer: T = _answers[key]
    return answer
