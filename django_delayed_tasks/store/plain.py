"""Texts in ASCII, for a database or a connection that cannot hold them as they are: what follows a run must not be
lost with the text that tells of it.
"""

import json
import re
from typing import TYPE_CHECKING

from django_delayed_tasks.store.dialects import Dialect

if TYPE_CHECKING:
    from django_delayed_tasks.store.settling import Settlement

RESULT_CHANGED = "the database cannot hold all characters of the result: they are kept as escapes in its texts"

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def in_ascii(text: str) -> str:
    """The text with escapes, as in ``\\u652f``, in the place of all characters that are not ASCII."""
    return text.encode("ascii", "backslashreplace").decode()


def json_in_ascii(text: str) -> str:
    """JSON text of the same value."""
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _json_with_escapes(text: str) -> str:
    """JSON text of a value that has escapes in its texts, where the other one has the characters."""
    return _NOT_ASCII.sub(lambda found: json.dumps(in_ascii(found[0]))[1:-1], text)


def plain(dialect: Dialect, settlement: "Settlement") -> "Settlement":
    """The same settlement with its texts in ASCII; equal to the given one if they are.

    The data of the next run remains what it is: where JSON's escapes do not help, it is left alone. A result that is
    changed says so in ``error``.
    """
    error, result, biz_ext = in_ascii(settlement.error), settlement.result, settlement.biz_ext
    if dialect.keeps_escaped_json:
        result = result and json_in_ascii(result)
        biz_ext = json_in_ascii(biz_ext) if isinstance(biz_ext, str) else biz_ext
    elif result and not result.isascii():
        result = _json_with_escapes(result)
        error = f"{error}\n{RESULT_CHANGED}".lstrip()
    return settlement._replace(error=error, result=result, biz_ext=biz_ext)
