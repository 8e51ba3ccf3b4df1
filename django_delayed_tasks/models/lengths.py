"""What fits into the columns: the longest texts, and the range of moments."""

from datetime import UTC, datetime

from django_delayed_tasks.triggers import LONGEST_TEXT

EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""The range of moments that every database can store."""
CODE_LENGTH = 50
NUM_LENGTH = 255
QUEUE_LENGTH = 50
LANE_LENGTH = CODE_LENGTH + 34
NAME_LENGTH = 150
NOTE_LENGTH = 200
EXCEPTION_LENGTH = 255
POOL_LENGTH = 50
"""The longest pool name that callers may choose; pools for limits have a prefix and a code."""
HOLDER_LENGTH = 64
TRIGGER_LENGTH = LONGEST_TEXT
TRACE_LENGTH = 55
"""The length of a ``traceparent``."""
