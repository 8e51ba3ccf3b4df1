"""Texts in ASCII, for a database or a connection that cannot hold them as they are: what follows a run must not be
lost with the text that tells of it.
"""

from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.escapes import in_ascii, json_in_ascii, json_with_escapes

RESULT_CHANGED = "the database cannot hold all characters of the result: they are kept as escapes in its texts"


def plain(dialect: Dialect, settlement: Settlement) -> Settlement:
    """The same settlement with its texts in ASCII; equal to the given one if they are.

    The data of the next run remains what it is: where JSON's escapes do not help, it is left alone. A result that is
    changed says so in ``error``.
    """
    error, result, biz_ext = in_ascii(settlement.error), settlement.result, settlement.biz_ext
    if dialect.keeps_escaped_json:
        result = result and json_in_ascii(result)
        biz_ext = json_in_ascii(biz_ext) if isinstance(biz_ext, str) else biz_ext
    elif result and not result.isascii():
        result = json_with_escapes(result)
        error = f"{error}\n{RESULT_CHANGED}".lstrip()
    return settlement._replace(error=error, result=result, biz_ext=biz_ext)
