"""A field for a moment: a date and a time, or an offset from now such as "in 30 minutes"."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, BaseAdminDateWidget, BaseAdminTimeWidget
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.triggers.fields import MomentField
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.validation import valid_offset
from django_delayed_tasks.support.spans import parse_offset


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
        try:
            return read_now(settings.DATABASE) + valid_offset(parse_offset(text), "when")
        except InvalidTask as error:
            raise forms.ValidationError(str(error)) from None
        except ValueError as error:
            why = _("Write an offset such as “in 30 minutes”, “2 h” or “1 day 6 hours”.")
            raise forms.ValidationError([why, str(error)]) from None

    def compress(self, data_list: Any) -> Any:
        dates = data_list[:2]
        if data_list and any(dates) and not all(dates):
            missing = "invalid_time" if dates[0] else "invalid_date"
            raise forms.ValidationError(self.error_messages[missing], code=missing)
        return super().compress(dates) if data_list and all(dates) else None
