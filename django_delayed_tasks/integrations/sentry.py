"""For Sentry: one issue for each code and error, whatever the numbers in the message; needs no import of its SDK."""

import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"\d+")
RUNS = "django_delayed_tasks.run"


def group_by_code(event: Any, hint: Mapping[str, Any]) -> Any:
    """Give an event of the log of runs a fingerprint of its code and its error; a ``before_send`` for Sentry.

    ``event`` is Sentry's ``Event``, a dictionary, and is returned. The error is the class of the exception or, without
    one, the text of the failure without its numbers.
    """
    record = hint.get("log_record")
    if record is not None and record.name == RUNS and getattr(record, "biz_code", None):
        event["fingerprint"] = [RUNS, record.biz_code, _error_of(record)]
    return event


def _error_of(record: Any) -> str:
    if record.exc_info and record.exc_info[0]:
        kind = record.exc_info[0]
        return f"{kind.__module__}.{kind.__qualname__}"
    return _NUMBER.sub("#", str(record.args[-1] if record.args else record.msg))
