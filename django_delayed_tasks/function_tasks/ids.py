"""The ids of results: UUIDs of version 8, whose first 60 bits are the task's primary key.

So a result is found by primary keys, although nothing but the task's row was written when it was enqueued. The last 62
bits are a digest of the task's number: they tell an id that was never given out from one that was.
"""

import hashlib
import re
import secrets
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django_delayed_tasks import clock

_VERSION, _VARIANT = 8 << 76, 0b10 << 62
"""The bits by which a UUID says that it is of version 8, and laid out as RFC 9562 says."""
_NUMBER = re.compile(r"([0-9a-f]{12,14})-[0-9a-f]{16}")


def new_number(now: datetime) -> str:
    """Return a number for a task without a business identity; later ones are greater, which suits an index."""
    return f"{clock.as_micros(now):x}-{secrets.token_hex(8)}"


def moment_in(biz_num: str) -> datetime | None:
    """Return the moment that :func:`new_number` was called with; None if the number is another one."""
    found = _NUMBER.fullmatch(biz_num)
    return clock.EPOCH + timedelta(microseconds=int(found[1], 16)) if found else None


def id_of(task_id: int, biz_num: str) -> str:
    """Return the id of the result of a task."""
    high, low = divmod(task_id, 1 << 12)
    digits = f"{high << 80 | _VERSION | low << 64 | _VARIANT | _tag(biz_num):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_of_success(success_id: int, biz_num: str) -> str:
    """Return the id of the result of what was done once, found by the record of that; it is never that of a task."""
    return id_of(success_id, f"\0{biz_num}")


def key_of(result_id: Any) -> int | None:
    """Return the primary key in the id of a result; None if it cannot be such an id."""
    try:
        value = UUID(result_id) if isinstance(result_id, str) else result_id
        number = value.int
    except (ValueError, AttributeError):
        return None
    if number >> 76 & 0xF != 8 or number >> 62 & 0b11 != 0b10:
        return None
    return int(number >> 80 << 12 | number >> 64 & 0xFFF)


def _tag(biz_num: str) -> int:
    return int.from_bytes(hashlib.sha256(biz_num.encode()).digest()[:8]) >> 2
