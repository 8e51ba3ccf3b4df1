"""A field for a moment: a date and a time, or an offset from now such as "in 30 minutes"."""

import re
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, BaseAdminDateWidget, BaseAdminTimeWidget
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.triggers.fields import MomentField
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.validation import valid_offset

UNITS: Final = {
    "seconds": ("s", "sec", "secs", "second", "seconds", "秒"),
    "minutes": ("m", "min", "mins", "minute", "minutes", "分", "分钟"),
    "hours": ("h", "hour", "hours", "小时"),
    "days": ("d", "day", "days", "天"),
    "weeks": ("w", "week", "weeks", "周"),
}
_NAMES: Final = {name: unit for unit, names in UNITS.items() for name in names}
_PART: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([^\W\d_]+?)(?=[\s\d,]|后|$)[\s,]*")


def offset_of(text: str) -> timedelta | None:
    """Return the duration that a text such as "in 1 h 30 min" says; None if it says none."""
    rest = text.strip().lower().removeprefix("in ").removesuffix("后").strip()
    found: dict[str, float] = {}
    while match := _PART.match(rest):
        unit = _NAMES.get(match[2])
        if unit is None or unit in found:
            return None
        found[unit], rest = float(match[1]), rest[match.end() :]
    return timedelta(**found) if found and not rest else None


class WhenWidget(AdminSplitDateTime):
    """Inputs for a date, for a time, and for an offset."""

    template_name = "admin/django_delayed_tasks/when.html"

    def __init__(self, attrs: Any = None) -> None:
        offset = forms.TextInput({"placeholder": _("in 30 minutes"), "size": 16, "aria-label": _("or in")})
        forms.MultiWidget.__init__(self, [BaseAdminDateWidget(), BaseAdminTimeWidget(), offset], attrs)

    def decompress(self, value: Any) -> Any:
        return [*super().decompress(value), ""]


class WhenField(MomentField):
    """A date and a time, or an offset from now by the database's clock, which takes precedence."""

    widget = WhenWidget

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(require_all_fields=False, **kwargs)
        self.fields = (*self.fields, forms.CharField(required=False))

    def clean(self, value: Any) -> Any:
        offset = value[2].strip() if isinstance(value, list | tuple) and len(value) > 2 and value[2] else ""
        return self.later(offset) if offset else super().clean(value)

    def later(self, text: str) -> datetime:
        """Return the moment that is this offset from now."""
        offset = offset_of(text)
        try:
            if offset is not None:
                return read_now(settings.DATABASE) + valid_offset(offset, "when")
        except InvalidTask as error:
            raise forms.ValidationError(str(error)) from None
        raise forms.ValidationError(_("Write an offset such as “in 30 minutes”, “2 h” or “1 day 6 hours”."))

    def compress(self, data_list: Any) -> Any:
        dates = data_list[:2]
        if data_list and any(dates) and not all(dates):
            missing = "invalid_time" if dates[0] else "invalid_date"
            raise forms.ValidationError(self.error_messages[missing], code=missing)
        return super().compress(dates) if data_list and all(dates) else None
