"""The form fields for a trigger: its text, and its next times below."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.triggers import outlook
from django_delayed_tasks.exceptions import InvalidTask, InvalidTrigger
from django_delayed_tasks.models import TRIGGER_LENGTH
from django_delayed_tasks.stats.plans import Plan
from django_delayed_tasks.store.validation import valid_trigger
from django_delayed_tasks.triggers import parse

PREVIEW: Final = "_preview"
"""The name of the button that shows the next times and saves nothing."""

HELP: Final = _(
    "For example Cron('0 3 * * *', tz='Europe/Berlin'), Cron('@daily'), Interval(minutes=30)"
    " or Once('2027-01-01T00:00+00:00')."
    " Empty: the task does not recur. “Show next times” shows the next times without saving."
)


class TriggerWidget(forms.Textarea):
    """A text area for the trigger's text, with its next times below."""

    plan: Callable[[], Plan | None] | None = None

    def __init__(self) -> None:
        super().__init__(attrs={"rows": 2, "cols": 80, "class": "vLargeTextField ddt-json", "spellcheck": "false"})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        text = super().render(name, value, attrs, renderer)
        plan = self.plan() if self.plan else None
        return format_html('<div class="ddt-trigger">{}{}</div>', text, outlook.shown(plan) if plan else "")


class TriggerTextField(forms.CharField):
    """A field for a trigger's text, which may be empty."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Trigger"), required=False, max_length=TRIGGER_LENGTH, widget=TriggerWidget(), help_text=HELP
        )


class MomentField(forms.SplitDateTimeField):
    """A field for a moment. Django refuses local times that do not exist or come twice.

    ``shown`` is the moment that the field showed: it is accepted unchanged, although its local time may come twice.
    """

    shown: datetime | None = None

    def clean(self, value: Any) -> Any:
        if self.shown is not None and not self.has_changed(self.shown, value):
            return self.shown
        return super().clean(value)


class ExpiryField(MomentField):
    """A field for the moment after which no run is started, which may be empty."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Expires"), required=False, widget=AdminSplitDateTime,
            help_text=_("No run starts after this moment. Empty: no limit."),
        )  # fmt: skip


def canonical(text: str) -> str | None:
    """Return a trigger's text in the form in which it is stored; None for an empty text.

    Raises:
        ValidationError: the text is not that of a trigger; the message names the error.
    """
    try:
        return str(valid_trigger(text)) if text else None
    except InvalidTask as error:
        raise forms.ValidationError(str(error)) from None


def check_has_time(text: str, now: datetime) -> None:
    """Raise InvalidTrigger if this trigger will never fire."""
    if parse(text).next_after(now) is None:
        raise InvalidTrigger("trigger", text, "has no time after now")
