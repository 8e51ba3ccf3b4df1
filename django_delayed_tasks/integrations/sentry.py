"""For Sentry: one issue for each code and error, whatever the numbers in the message, without the data of tasks.

It needs no import of Sentry's SDK.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NUMBER = re.compile(r"\d+")
RUNS = "django_delayed_tasks.run"
_OWN = "django_delayed_tasks"
_STORE = "django_delayed_tasks.store"
_WITH_DATA = (
    _OWN, "django.db", "django.tasks", "django_tasks", "psycopg", "psycopg2", "MySQLdb", "pymysql", "mysql", "sqlite3",
)  # fmt: skip
"""The packages whose local variables hold the data of tasks: as JSON text, in tuples, as parameters of statements."""
_FILTERED = "[Filtered]"


def group_by_code(event: Any, hint: Mapping[str, Any]) -> Any:
    """Give an event of the log of runs a fingerprint of its code and its error; a ``before_send`` for Sentry.

    ``event`` is Sentry's ``Event``, a dictionary, and is returned. The error is the class of the exception or, without
    one, the text of the failure without its numbers.

    The local variables of this package, of the database's driver and of the libraries between them and the project's
    code are left out of all events: there, the names by which Sentry hides values are lost.
    """
    _leave_out_data(event)
    record = hint.get("log_record")
    if record is not None and record.name == RUNS and getattr(record, "biz_code", None):
        event["fingerprint"] = [RUNS, record.biz_code, _error_of(record)]
    return event


def _leave_out_data(event: Any) -> None:
    traces = [[frame for frame in frames if isinstance(frame, dict)] for frames in _stacktraces(event)]
    with_tasks = any(_is_in(frame, (_OWN,)) for frames in traces for frame in frames)
    for frames in traces:
        by_store = False
        for frame in frames:  # the outermost first
            if _is_in(frame, (_OWN,)):
                by_store = _is_in(frame, (_STORE,))  # which calls no handler: what it calls gets parameters
            is_library = with_tasks and frame.get("in_app") is False
            if by_store or is_library or _is_in(frame, _WITH_DATA):
                frame.pop("vars", None)
    sent = (event.get("request") or {}).get("data")
    if isinstance(sent, dict) and "biz_ext" in sent:
        sent["biz_ext"] = _FILTERED  # a form of the admin: JSON text, without names for Sentry to look at


def _stacktraces(event: Any) -> Iterator[Any]:
    holders = [event]
    for part in ("exception", "threads"):
        found = event.get(part) or {}
        holders += found.get("values") or [] if isinstance(found, dict) else found
    for holder in holders:
        if isinstance(holder, dict) and isinstance(trace := holder.get("stacktrace"), dict):
            yield trace.get("frames") or []


def _is_in(frame: Any, packages: tuple[str, ...]) -> bool:
    module = frame.get("module") or ""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _error_of(record: Any) -> str:
    if record.exc_info and record.exc_info[0]:
        kind = record.exc_info[0]
        return f"{kind.__module__}.{kind.__qualname__}"
    text = str(record.args[-1] if record.args else record.msg)
    kind = text.partition(":")[0]
    return kind if kind.startswith(f"{_OWN}.exceptions.") else _NUMBER.sub("#", text)
