"""Durations in words, for messages and pages."""

from datetime import timedelta

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration_text(duration: timedelta) -> str:
    """Return the duration in its two largest units: "3 d 4 h", "5 min 12 s", "0.25 s"."""
    seconds = abs(duration.total_seconds())
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = int(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        if whole >= size or parts:
            parts.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))
