"""A form field for JSON."""

from typing import Any

from django import forms
from django.forms.fields import InvalidJSONInput

from django_delayed_tasks.admin.lists.columns import pretty_json


class PrettyJSONField(forms.JSONField):
    """A JSON field that shows its value indented."""

    widget = forms.Textarea(attrs={"rows": 8, "cols": 80, "class": "vLargeTextField ddt-json", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return str(value)
        return "" if value is None else pretty_json(value)

    # For JSON that is nested too deeply, or has numbers of thousands of digits, Python raises other errors.
    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except forms.ValidationError:
            raise
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(str(error)) from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            return super().bound_data(data, initial)
        except (ValueError, RecursionError):
            return InvalidJSONInput(data)

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return super().has_changed(initial, data)
        except RecursionError:
            return True
