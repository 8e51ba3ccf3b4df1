"""The actions on tasks in the admin."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_delayed_tasks.admin.actions import verbs
from django_delayed_tasks.admin.actions.row_actions import RowActions


class TaskActions(RowActions):
    """The actions of the list of tasks, which are also the buttons of a task's page."""

    actions = ("run_now", "postpone", "pause", "resume", "retry_failed", "cancel")
    needed = ("biz_code", "biz_num", "version")
    changed_text = ngettext_lazy("%(shown)s task was %(done)s.", "%(shown)s tasks were %(done)s.", "count")
    unchanged_text = ngettext_lazy(
        "%(shown)s task was left unchanged: it changed since the page was loaded, or its state forbids this.",
        "%(shown)s tasks were left unchanged: changed since the page was loaded, or in the wrong state.",
        "count",
    )

    run_now = verbs.RUN_NOW.method(_("Run now"), "change")
    postpone = verbs.POSTPONE.method(_("Postpone by an hour"), "change")
    retry_failed = verbs.RETRY_FAILED.method(_("Retry failed"), "change")
    pause = verbs.PAUSE.method(_("Pause"), "change")
    resume = verbs.RESUME.method(_("Resume"), "change")
    cancel = verbs.CANCEL.method(_("Cancel"), "delete")
