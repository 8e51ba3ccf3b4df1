"""``manage.py tasks VERB …``: list, show, add and change tasks from a terminal or a script."""

import sys
from argparse import ArgumentParser
from collections import Counter
from datetime import datetime
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext_lazy

from django_delayed_tasks import api, clock
from django_delayed_tasks.exceptions import InvalidTask, TaskException
from django_delayed_tasks.management.shared import confirm, refuse_unknown, text_of
from django_delayed_tasks.management.tasks import output, retiming, selection, verbs
from django_delayed_tasks.management.tasks.arguments import add_arguments
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import AddAction
from django_delayed_tasks.stats.why import told
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.support.durations import past_text

ACTIONS: Final = {
    AddAction.CREATED: pgettext_lazy("what adding did", "created"),
    AddAction.REPLACED: pgettext_lazy("what adding did", "replaced"),
    AddAction.KEPT: pgettext_lazy("what adding did", "kept"),
    AddAction.DEFERRED: pgettext_lazy("what adding did", "deferred"),
    AddAction.FILTERED: pgettext_lazy("what adding did", "filtered"),
}


class Command(BaseCommand):
    """Lists, shows and changes tasks.

    Exit codes: 0 if it was done, 1 for an error or a No, 2 for wrong arguments, 3 if there is no such task, or none was
    changed.
    """

    help = "List, show, add, cancel, retry, run, reschedule and retime tasks."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        verb: str = given["verb"]
        refuse_unknown(given["database"], returncode=2)
        try:
            found = self._do(verb, given)
        except InvalidTask as error:
            raise CommandError(str(error), returncode=2) from None
        except (TaskException, DatabaseError) as error:
            raise CommandError(text_of(error, given["database"])) from None
        if not found:
            sys.exit(3)

    def _do(self, verb: str, given: dict[str, Any]) -> bool:
        """Do what the verb says; return whether there was such a task."""
        if verb == "list":
            return self._list(selection.listed(given), given)
        if verb == "next":
            return self._next(given)
        if verb == "show":
            return self._show(given)
        if verb == "add":
            return self._add(given)
        if verb == "retime":
            return self._retime(given)
        return self._change(verbs.CHANGES[verb](given), given)

    def _next(self, given: dict[str, Any]) -> bool:
        if given["until"] is None:
            return self._list(selection.coming(given), given)
        found = selection.planned(given)
        runs = found[: given["limit"]]
        if given["format"] == "json":
            self.stdout.write(output.as_json([output.planned_as_dict(run) for run in runs]))
        else:
            self.stdout.write("\n".join(output.planned_as_table(runs)))
        if len(found) > len(runs):
            self.stderr.write(_("There are more runs: see --limit."))
        return True

    def _list(self, found: list[Task], given: dict[str, Any]) -> bool:
        tasks = found[: given["limit"]]
        if given["format"] == "json":
            self.stdout.write(output.as_json([output.task_as_dict(task) for task in tasks]))
        else:
            self.stdout.write("\n".join(output.as_table(tasks, failed=given.get("status") == "failed")))
        if len(found) > len(tasks):
            self.stderr.write(_("There are more tasks: see --limit."))
        return True

    def _show(self, given: dict[str, Any]) -> bool:
        task = selection.named(given).first()
        code, number = (task.biz_code, task.biz_num) if task else (given["code"], given["number"])
        runs = list(api._runs_of(code, str(number), given["database"])[:10])
        now = read_now(api.database(given["database"]))
        if task is None:
            self._show_ended(runs, given)
        elif given["format"] == "json":
            times = [moment.isoformat() for moment in output.next_times(task, now)]
            name = output.executor_name(task)
            more = {"executor_name": name, "waits_for": told(task, now), "next_times": times}
            shown = output.task_as_dict(task) | more | {"runs": [output.run_as_dict(run) for run in runs]}
            self.stdout.write(output.as_json(shown))
        else:
            self.stdout.write("\n".join(output.as_text(task, runs, now)))
        return task is not None

    def _show_ended(self, runs: list[TaskRun], given: dict[str, Any]) -> None:
        if not runs:
            self.stderr.write(_("There is no such task."))
            return
        self.stderr.write(_("There is no such task now; these are its last runs."))
        if given["format"] == "json":
            self.stdout.write(output.as_json({"runs": [output.run_as_dict(run) for run in runs]}))
        else:
            self.stdout.write("\n".join(map(output.run_line, runs)))

    def _add(self, given: dict[str, Any]) -> bool:
        result = verbs.add(given)
        if result.action is not AddAction.FILTERED:
            self._warn_of_past(given)
        if given["format"] == "json":
            self.stdout.write(output.as_json({"task_id": result.task_id, "action": str(result.action)}))
        else:
            self.stdout.write(_("Task %(id)s: %(action)s.") % {"id": result.task_id, "action": ACTIONS[result.action]})
        return True

    def _warn_of_past(self, given: dict[str, Any]) -> None:
        if isinstance(when := given.get("when"), datetime) and (text := past_text(when, clock.host_now())):
            self.stderr.write(text)

    def _retime(self, given: dict[str, Any]) -> bool:
        alias = api.database(given["database"])
        tasks, leases = retiming.found(alias) if given["dry_run"] else retiming.mend(alias)
        if given["format"] == "json":
            self.stdout.write(output.as_json({"tasks": tasks, "leases": leases}))
        elif tasks or leases:
            self.stdout.write(retiming.text(tasks, leases, is_dry=given["dry_run"]))
        else:
            self.stderr.write(_("Nothing was written while the database's clock was ahead, or it is right by now."))
        return bool(tasks or leases)

    def _change(self, change: verbs.Change, given: dict[str, Any]) -> bool:
        is_dry = given.get("dry_run", False)
        if change.question and not is_dry:
            confirm(self, change.question, yes=given["yes"])
        changed = Counter() if is_dry else api.change_each(change.tasks, change.verb)
        count = change.tasks.count() if is_dry else changed.total()
        if given["format"] == "json":
            self.stdout.write(output.as_json({"selected" if is_dry else "changed": count}))
        elif count:
            self.stdout.write(would_change(count) if is_dry else change.done(changed))
            if not is_dry:
                self._warn_of_past(given)
        else:
            self.stderr.write(verbs.unchanged_text(given["verb"], given))
        return bool(count)


def would_change(count: int) -> str:
    """Return how many tasks are selected."""
    return ngettext("%d task is selected.", "%d tasks are selected.", count) % count
