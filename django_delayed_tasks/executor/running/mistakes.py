"""What a handler that returned something else than an outcome may have meant, for the message of its failure."""

from datetime import datetime
from typing import Any

from django_delayed_tasks.outcomes import Done, Fail, Reschedule, Retry

_OUTCOMES = (Done, Fail, Reschedule, Retry)


def meant_instead(result: Any) -> str:
    """Return "; did you mean …?" for a wrong result of a handler, or an empty string if there is nothing to suggest."""
    try:
        meant = _meant(result)
    except Exception:  # a wrong result may misbehave in any way
        return ""
    return f"; did you mean {meant}?" if meant else ""


def _meant(result: Any) -> str:
    if isinstance(result, type) and result in _OUTCOMES:
        return f"{result.__name__}(...), an instance"
    if result is False:
        return "Retry(reason=...) or Fail(reason)"
    if isinstance(result, datetime):
        return "an aware datetime, as from timezone.make_aware(...)" if result.utcoffset() is None else ""
    if isinstance(result, BaseException):
        return "to raise it"
    if type(result) in (int, float):
        return "Done(result=...), or timedelta(seconds=...)"
    return "Done(result=...)" if isinstance(result, bool | str | bytes | dict | list | tuple | set) else ""
