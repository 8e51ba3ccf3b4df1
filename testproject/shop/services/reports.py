"""What was sold."""

from datetime import datetime
from typing import Any

from django.db.models import Sum

from testproject.shop.models import Order


def sales(since: datetime | None, until: datetime) -> dict[str, Any]:
    """Return what was paid and cancelled from ``since`` (None: the beginning) up to but not including ``until``."""
    paid, cancelled = (
        Order.objects.filter(**{f"{field}__lt": until}, **({f"{field}__gte": since} if since else {}))
        for field in ("paid_at", "cancelled_at")
    )
    return {
        "since": since and since.isoformat(),
        "until": until.isoformat(),
        "paid": paid.count(),
        "turnover": f"{paid.aggregate(total=Sum('total'))['total'] or 0:.2f}",
        "cancelled": cancelled.count(),
    }
