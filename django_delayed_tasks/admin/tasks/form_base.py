"""The base class of the forms that add and change a task, and their field for JSON."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.forms.fields import InvalidJSONInput
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.lists.columns import number_text, pretty_json
from django_delayed_tasks.admin.triggers.fields import PREVIEW, ExpiryField, TriggerTextField, canonical
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import Task
from django_delayed_tasks.stats.plans import Plan, plan_of
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.support import redaction

if TYPE_CHECKING:
    TaskModelForm = forms.ModelForm[Task]
else:
    TaskModelForm = forms.ModelForm

PREVIEWED: Final = {"trigger_text", "when"}
"""The fields whose errors a preview shows."""


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
            text = gettext("This is too long: %(length)s characters without white space, %(most)s at most.")
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


class TaskForm(TaskModelForm):
    """A form with data, queue, priority, trigger and expiry, which are validated as by ``add_task``.

    If it is submitted with the button named ``PREVIEW``, it is never valid, so that nothing is saved: it is shown
    again, with the next times of its trigger.
    """

    biz_ext = PrettyJSONField(label=_("Data"), required=False, help_text=_("Any JSON value, or nothing."))
    trigger_text = TriggerTextField()
    expires_at = ExpiryField()

    class Meta:
        model = Task
        fields: tuple[str, ...] = ("biz_ext", "queue", "priority", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance._state.db = settings.DATABASE
        self.initial["biz_ext"] = redaction.numbered(self.instance.biz_ext)
        if "trigger_text" in self.fields:
            self.fields["trigger_text"].widget.plan = self.plan

    @property
    def is_preview(self) -> bool:
        """Whether the form was submitted for a preview."""
        return PREVIEW in self.data

    @cached_property
    def now(self) -> datetime:
        """The present moment by the database's clock."""
        return read_now(settings.DATABASE)

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_preview:
            for name in self.errors.keys() - PREVIEWED:
                del self.errors[name]

    def is_valid(self) -> bool:
        return super().is_valid() and not self.is_preview

    def clean_biz_ext(self) -> Any:
        """Return the data to save: masked values that were not changed are replaced by the originals."""
        try:
            return redaction.restored(self.cleaned_data["biz_ext"], self.instance.biz_ext)
        except (redaction.MisplacedMask, RecursionError) as error:
            raise forms.ValidationError(str(error)) from None

    def clean_trigger_text(self) -> str | None:
        """Return the text in the form to store; an unchanged text is kept as it is, valid or not."""
        if "trigger_text" not in self.changed_data:
            return self.instance.trigger_text
        return canonical(self.cleaned_data["trigger_text"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                self.check(cleaned)
            except InvalidTask as error:
                field = {"trigger": "trigger_text", "once": "once_only"}.get(error.field, error.field)
                self.add_error(field if field in self.fields else None, str(error))
        return cleaned

    def check(self, cleaned: dict[str, Any]) -> None:
        """Raise InvalidTask or ValidationError for a value that is not accepted."""
        raise NotImplementedError

    def plan(self) -> Plan | None:
        """Return the plan of the trigger in the form; None if there is no trigger, or an error is shown instead."""
        if not self.is_bound:
            return plan_of(self.instance, self.now) if self.instance.trigger_text else None
        text = self.cleaned_data.get("trigger_text") if hasattr(self, "cleaned_data") else None
        return self.new_plan(text) if text else None

    def new_plan(self, text: str) -> Plan | None:
        """Return the plan that this trigger would have once the form is saved."""
        return Plan(text, self.now, self.cleaned_data.get("when"))
