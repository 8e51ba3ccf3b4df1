"""The trace that a caller is in, by OpenTelemetry, as the text of a ``traceparent`` header (W3C Trace Context)."""

import sys
from typing import Any

from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


def trace_of_caller() -> str | None:
    """Return the context of the current span; None without one, or if the process does not use OpenTelemetry.

    A span that is not sampled cannot be found later, so it counts as none. A task is accepted without its trace if that
    cannot be read: while another thread imports OpenTelemetry, its modules are incomplete.
    """
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    try:
        context = api.get_current_span().get_span_context()
        if not (context.is_valid and context.trace_flags & 1):
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    except Exception:
        logger.debug("the trace of the caller cannot be read", exc_info=True)
        return None
