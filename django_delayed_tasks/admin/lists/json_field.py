"""A form field for JSON."""

from typing import Any

from django import forms
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext as _

from django_delayed_tasks.admin.lists.columns import number_text, pretty_json
from django_delayed_tasks.conf import settings


class PrettyJSONField(forms.JSONField):
    """A JSON field that shows its value indented, and what was typed as it was typed."""

    widget = forms.Textarea(attrs={"rows": 8, "cols": 80, "class": "vLargeTextField ddt-json", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return str(value)
        return "" if value is None else pretty_json(value)

    # For JSON that is nested too deeply, or has numbers of thousands of digits, Python raises other errors.
    def to_python(self, value: Any) -> Any:
        length = len("".join(value.split())) if isinstance(value, str) else 0
        if length > settings.MAX_BIZ_EXT_BYTES:
            text = _("This is too long: %(length)s characters without white space, %(most)s at most.")
            most = number_text(settings.MAX_BIZ_EXT_BYTES)
            raise forms.ValidationError(text % {"length": number_text(length), "most": most})
        try:
            return super().to_python(value)
        except forms.ValidationError:
            raise
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(str(error)) from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        return InvalidJSONInput(data or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return super().has_changed(initial, data)
        except RecursionError:
            return True
