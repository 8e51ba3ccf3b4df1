"""Settlements in ASCII, for a database or connection that cannot hold their texts as they are.

A run's settlement must not be lost because of a text in it.
"""

from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.escapes import in_ascii, json_in_ascii, json_with_escapes

RESULT_CHANGED = "the database cannot store all characters of the result: they were replaced by escapes in its texts"


def plain(dialect: Dialect, settlement: Settlement) -> Settlement:
    """Return the settlement with its texts in ASCII; an equal one if they are ASCII already.

    The value of the next run's data does not change: where JSON escapes do not help, the data is left alone. If the
    result has to change, ``error`` says so.
    """
    error, result, biz_ext = in_ascii(settlement.error), settlement.result, settlement.biz_ext
    if dialect.keeps_escaped_json:
        result = result and json_in_ascii(result)
        biz_ext = json_in_ascii(biz_ext) if isinstance(biz_ext, str) else biz_ext
    elif result and not result.isascii():
        result = json_with_escapes(result)
        error = f"{error}\n{RESULT_CHANGED}".lstrip()
    return settlement._replace(error=error, result=result, biz_ext=biz_ext)
