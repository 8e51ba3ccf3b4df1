"""The forms to add and to change a task."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime
from django.forms.fields import InvalidJSONInput
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks import api, redaction
from django_delayed_tasks.admin import seen
from django_delayed_tasks.admin.columns import pretty_json
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import CODE_LENGTH, QUEUE_LENGTH, Task
from django_delayed_tasks.store import validation

if TYPE_CHECKING:
    TaskModelForm = forms.ModelForm[Task]
else:
    TaskModelForm = forms.ModelForm


class PrettyJSONField(forms.JSONField):
    """JSON, set out on lines."""

    widget = forms.Textarea(attrs={"rows": 8, "cols": 80, "class": "vLargeTextField ddt-json", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, InvalidJSONInput):
            return str(value)
        return "" if value is None else pretty_json(value)

    # Python refuses JSON that is nested too deeply, or has numbers of thousands of digits, by errors of its own.
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


class TaskForm(TaskModelForm):
    """Data, queue and priority as for ``add_task``, which checks them."""

    biz_ext = PrettyJSONField(label=_("Data"), required=False, help_text=_("Any JSON value, or nothing."))

    class Meta:
        model = Task
        fields: tuple[str, ...] = ("biz_ext", "queue", "priority")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance._state.db = settings.DATABASE
        self.initial["biz_ext"] = redaction.numbered(self.instance.biz_ext)

    def clean_biz_ext(self) -> Any:
        """The data as it is to be: what was hidden comes back where its mask still stands."""
        try:
            return redaction.restored(self.cleaned_data["biz_ext"], self.instance.biz_ext)
        except (redaction.MisplacedMask, RecursionError) as error:
            raise forms.ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                self.check(cleaned)
            except InvalidTask as error:
                self.add_error(error.field if error.field in self.fields else None, str(error))
        return cleaned

    def check(self, cleaned: dict[str, Any]) -> None:
        """Raise InvalidTask, or ValidationError, for what cannot be accepted."""
        raise NotImplementedError


class AddTaskForm(TaskForm):
    """Everything that ``add_task`` takes; what is left empty is the handler's, or now."""

    when = forms.SplitDateTimeField(
        label=_("When"), required=False, widget=AdminSplitDateTime, help_text=_("Empty: at once.")
    )
    queue = forms.CharField(
        label=_("Queue"), required=False, max_length=QUEUE_LENGTH, help_text=_("Empty: the handler's.")
    )
    priority = forms.IntegerField(
        label=_("Priority"), required=False, help_text=_("From -100 to 100, higher first. Empty: the handler's.")
    )

    class Meta(TaskForm.Meta):
        fields = ("biz_code", "biz_num", "when", "biz_ext", "queue", "priority")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["biz_code"] = code_field()

    def task(self, cleaned: dict[str, Any]) -> Task:
        """The unsaved task that these values describe."""
        values = {name: cleaned[name] for name in ("biz_code", "biz_num", "when", "biz_ext", "priority")}
        return Task(queue=cleaned["queue"] or "", **values)

    def check(self, cleaned: dict[str, Any]) -> None:
        api.accepted(self.task(cleaned))


class ChangeTaskForm(TaskForm):
    """What of a waiting task may be changed."""

    when = forms.SplitDateTimeField(label=_("When"), widget=AdminSplitDateTime)

    class Meta(TaskForm.Meta):
        fields = ("when", "biz_ext", "queue", "priority")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "when" in self.initial and not is_shown_here(self.initial["when"]):
            self.initial["when"] = None

    def check(self, cleaned: dict[str, Any]) -> None:
        if self.data.get(seen.NAME) != seen.mark(self.instance):
            raise forms.ValidationError(seen.CHANGED)
        validation.valid_when(cleaned["when"])
        validation.valid_json(cleaned["biz_ext"], settings.MAX_BIZ_EXT_BYTES)
        validation.valid_queue(cleaned["queue"])
        validation.valid_priority(cleaned["priority"])


def is_shown_here(moment: datetime) -> bool:
    """Whether the current time zone has this moment: at the ends of the calendar it may not."""
    try:
        timezone.localtime(moment)
    except (OverflowError, ValueError):
        return False
    return True


def code_field() -> forms.Field:
    """A choice of the codes that have a handler, or any text if unknown codes are allowed."""
    if settings.ALLOW_UNKNOWN_CODES:
        return forms.CharField(label=_("Code"), max_length=CODE_LENGTH)
    codes = sorted(get_task_handlers())
    return forms.ChoiceField(label=_("Code"), choices=[("", "---------"), *((code, code) for code in codes)])
