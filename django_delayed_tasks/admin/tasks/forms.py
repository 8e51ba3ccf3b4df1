"""The forms that add and change a task, and their field for its time."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime, BaseAdminDateWidget, BaseAdminTimeWidget
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.admin.tasks.form_base import TaskForm
from django_delayed_tasks.admin.triggers.fields import MomentField, check_has_time
from django_delayed_tasks.admin.triggers.outlook import note_on
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.handlers import find, get_task_handlers
from django_delayed_tasks.models import CODE_LENGTH, QUEUE_LENGTH, Task
from django_delayed_tasks.stats.plans import Plan, plan_of
from django_delayed_tasks.store import validation
from django_delayed_tasks.store.acceptance import accepted, refuse_never
from django_delayed_tasks.store.schedules.recurrence import read_now, with_first_times
from django_delayed_tasks.store.sql.lanes import lane_of
from django_delayed_tasks.store.validation import Schedule
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
            return read_now(settings.DATABASE) + validation.valid_offset(parse_offset(text), "when")
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


class AddTaskForm(TaskForm):
    """A form with all arguments of ``add_task``; empty fields default to the handler's values, or to now."""

    when = WhenField(
        label=_("When"), required=False,
        help_text=_("Empty: immediately; with a trigger, at its first time."),
    )  # fmt: skip
    queue = forms.CharField(
        label=_("Queue"), required=False, max_length=QUEUE_LENGTH, help_text=_("Empty: the handler's.")
    )
    priority = forms.IntegerField(
        label=_("Priority"), required=False, help_text=_("From -100 to 100, higher first. Empty: the handler's.")
    )
    once_only = forms.BooleanField(
        label=_("Once only"),
        required=False,
        help_text=_("Refused if this task was added with this option before, and has succeeded."),
    )

    class Meta(TaskForm.Meta):
        fields = ("biz_code", "biz_num", "when", "biz_ext", "queue", "priority", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["biz_code"] = code_field()

    def task(self, cleaned: dict[str, Any]) -> Task:
        """Return the unsaved task that these values describe."""
        values = {name: cleaned[name] for name in ("biz_code", "biz_num", "when", "biz_ext", "priority", "expires_at")}
        return Task(queue=cleaned["queue"] or "", trigger=cleaned["trigger_text"], **values)

    def check(self, cleaned: dict[str, Any]) -> None:
        accepted(self.task(cleaned), cleaned["once_only"])
        if cleaned["trigger_text"] and cleaned["when"] is None:
            check_has_time(cleaned["trigger_text"], self.now)


class ChangeTaskForm(TaskForm):
    """A form with the fields of a waiting task that can be changed."""

    when = WhenField(label=_("When"))

    class Meta(TaskForm.Meta):
        fields = ("when", "biz_ext", "queue", "priority", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["trigger_text"] = self.instance.trigger_text
        for name in ("when", "expires_at"):
            if self.initial.get(name) and not is_shown_here(self.initial[name]):
                self.initial[name] = None
            field: Any = self.fields.get(name)
            if field and self.initial.get(name):  # shown to the second
                field.shown = self.initial[name].replace(microsecond=0)

    @property
    def has_new_trigger(self) -> bool:
        """Whether the form changes how the task recurs, or ends its recurrence."""
        changed: bool = self.cleaned_data["trigger_text"] != self.instance.trigger_text
        return changed

    @property
    def is_new_schedule(self) -> bool:
        """Whether the change replaces the task's schedule, as ``add_task`` does."""
        return self.has_new_trigger or "expires_at" in self.changed_data

    def schedule(self, current: Task) -> Schedule:
        """Return the new schedule of the task; a new trigger starts with its first time after now.

        ``current`` is the task as it is in the database.

        Raises:
            InvalidTrigger: the trigger has no time after now.
        """
        cleaned = self.cleaned_data
        text, when = cleaned["trigger_text"], cleaned["when"] if "when" in self.changed_data else current.when
        if text and self.has_new_trigger and "when" not in self.changed_data:
            when = None
        biz_ext = validation.valid_json(cleaned["biz_ext"], settings.MAX_BIZ_EXT_BYTES)
        schedule = Schedule(
            current.biz_code, current.biz_num, when, biz_ext, cleaned["queue"], cleaned["priority"], text,
            cleaned["expires_at"] if "expires_at" in self.changed_data else current.expires_at, current.once,
            lane=lane_of(current.biz_code, find(current.biz_code)),
        )  # fmt: skip
        return with_first_times(settings.DATABASE, [schedule])[0]

    def check(self, cleaned: dict[str, Any]) -> None:
        if self.data.get(seen.NAME) != seen.mark(self.instance):
            raise forms.ValidationError(seen.CHANGED)
        validation.valid_when(cleaned["when"])
        validation.valid_json(cleaned["biz_ext"], settings.MAX_BIZ_EXT_BYTES)
        if "queue" in self.changed_data:
            validation.valid_new_queue(cleaned["queue"])
        validation.valid_priority(cleaned["priority"])
        validation.valid_when(cleaned["expires_at"], "expires_at")
        if {"when", "expires_at"}.intersection(self.changed_data):
            refuse_never(cleaned["when"], cleaned["expires_at"], "expires_at")
        if self.has_new_trigger and cleaned["trigger_text"]:
            if self.instance.once:
                raise InvalidTask("trigger", cleaned["trigger_text"], "is not possible for a task that runs once only")
            if "when" not in self.changed_data:
                check_has_time(cleaned["trigger_text"], self.now)

    def new_plan(self, text: str) -> Plan | None:
        if not self.has_new_trigger:
            return plan_of(self.instance, self.now)
        first = self.cleaned_data.get("when") if "when" in self.changed_data else None
        return Plan(text, self.now, first, note_on(self.instance))


def is_shown_here(moment: datetime) -> bool:
    """Return whether this moment exists in the current time zone: at the ends of the calendar it may not."""
    try:
        timezone.localtime(moment)
    except (OverflowError, ValueError):
        return False
    return True


def code_field() -> forms.Field:
    """Return a choice of the codes that have a handler, or a text field if unknown codes are allowed."""
    if settings.ALLOW_UNKNOWN_CODES:
        return forms.CharField(label=_("Code"), max_length=CODE_LENGTH)
    codes = sorted(get_task_handlers())
    return forms.ChoiceField(label=_("Code"), choices=[("", "---------"), *((code, code) for code in codes)])
