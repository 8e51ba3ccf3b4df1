"""How the shop writes prices, moments, durations and tasks."""

import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from django_delayed_tasks import Task, TaskRun
from testproject.shop.codes import END_PROMOTION, NIGHTLY_REPORT

register = template.Library()


@register.filter
def money(amount: Decimal) -> str:
    return f"£{amount:,.2f}"


@register.filter
def countdown(moment: datetime) -> str:
    """The moment as a ``<time>`` that shows how long it is until then; a script keeps it running."""
    left = moment - timezone.now()
    text = f"in {duration(left)}" if left > timedelta(0) else "now"
    return format_html('<time class="countdown" datetime="{}">{}</time>', moment.isoformat(), text)


@register.filter
def duration(value: timedelta | None) -> str:
    """Return a duration in two units, as in ``2 d 3 h`` and ``5 min 10 s``; below ten seconds as in ``0.041 s``."""
    if value is None:
        return ""
    seconds = abs(value.total_seconds())
    sign = "-" if value < timedelta(0) else ""
    if seconds < 10:
        return f"{sign}{seconds:.3f} s"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:.0f} {unit}")
    return sign + " ".join(parts[:2])


@register.filter
def since(later: datetime | None, earlier: datetime | None) -> timedelta | None:
    """``later - earlier``."""
    return later - earlier if later and earlier else None


@register.filter
def last_line(text: str) -> str:
    """Return the last line of a traceback."""
    return text.strip().rpartition("\n")[2]


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@register.filter
def subject(task: Task | TaskRun) -> str:
    """The page of the promotion or order that a task of the shop is about; "" if it is about neither."""
    if task.biz_code == NIGHTLY_REPORT:
        return ""
    page = "shop:promotion" if task.biz_code == END_PROMOTION else "shop:order"
    return reverse(page, args=[task.biz_num])
