"""A function that has moved to another module while tasks of it wait: it is named, and its old module may import it."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import modify_settings
from django.utils import timezone

from django_delayed_tasks import stats
from django_delayed_tasks.handlers import find, registry
from django_delayed_tasks.handlers.functions import code_of_function
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats.why import why
from tests.executor.limits.parts import LanesBench
from tests.executor.parts import Bench, drain
from tests.function_tasks.framework import default_task_backend
from tests.handlers.conftest import make_package

__all__ = ["make_package"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

SOURCE = """
from tests.function_tasks.framework import task
from django_delayed_tasks import task_options

@task
@task_options({options})
{kind}def mail(number):
    return number + 1
"""
NOTHING = "handler for its code"


class Moved:
    """An app whose function ``mail`` is in its module ``old``, where it is enqueued once, and moves to ``new``."""

    def __init__(self, folder: Path, package: str, source: str) -> None:
        self.package, self._folder, self._source = package, folder / package, source
        self.path = f"{package}.old.mail"
        old: Any = __import__(f"{package}.old", fromlist=["mail"])
        self.result = old.mail.enqueue(1)

    def move(self, left: str) -> None:
        """Move the function; ``left`` is what remains in its old module, which nothing has imported since."""
        (self._folder / "new.py").write_text(self._source)
        (self._folder / "old.py").write_text(left)
        for module in ("old", "new"):
            sys.modules.pop(f"{self.package}.{module}", None)
        registry.clear()
        sys.path_importer_cache.clear()


@pytest.fixture(params=[("", ""), ("", "async "), ("max_concurrent=1", "")], ids=["plain", "async", "limited"])
def moved(request: pytest.FixtureRequest, tmp_path: Path, make_package: Any) -> Any:
    options, kind = request.param
    source = SOURCE.format(options=options, kind=kind)
    package = make_package({"old": source})
    with modify_settings(INSTALLED_APPS={"append": package}):
        yield Moved(tmp_path, package, source)


def health() -> tuple[int, str]:
    out = StringIO()
    code = 0
    try:
        call_command("taskhealth", stdout=out)
    except SystemExit as end:
        code = int(str(end.code))
    return code, out.getvalue()


def shown(code: str, num: str) -> Any:
    out = StringIO()
    call_command("tasks", "show", code, num, "--format=json", stdout=out)
    return json.loads(out.getvalue())


def test_it_is_named_with_its_reason(moved: Moved) -> None:
    """As the code of a handler that is gone."""
    moved.move("")
    bench = LanesBench()
    try:
        bench.poller.poll()
        bench.turn()
        bench.settle()
        Task.objects.filter(claim_at__lte=timezone.now()).update(claim_at=timezone.now() - 2 * stats.snapshot.LATE)
        row = Task.objects.get()
        assert (row.status, row.attempts) == (TaskStatus.PENDING, 0)
        found = why(row, timezone.now())
        assert found
        assert NOTHING in found.text
        assert NOTHING in shown(row.biz_code, row.biz_num)["waits_for"]
        [problem] = [one for one in stats.problems() if one.kind == "code_without_handler"]
        assert (problem.subject, problem.level) == (row.biz_code, "error")
        assert "import it in the old one as well" in problem.advice
        assert health()[0] == 1
        assert f"tasks of {row.biz_code} wait" in health()[1]
    finally:
        bench.end()


def test_its_old_module_imports_it(moved: Moved) -> None:
    moved.move(f"from {moved.package}.new import mail\n")
    drain()
    assert not Task.objects.exists()
    assert TaskRun.objects.get().outcome == RunOutcome.DONE
    result = default_task_backend.get_result(moved.result.id)
    assert (result.return_value, result.task.module_path) == (2, f"{moved.package}.new.mail")


@pytest.mark.parametrize(
    "left", ["from {} import new\nmail = new.mail\n", "from {}.new import mail as other\nmail = other"]
)
def test_its_old_module_assigns_it(moved: Moved, left: str) -> None:
    moved.move(left.format(moved.package))
    drain()
    assert TaskRun.objects.get().outcome == RunOutcome.DONE


def test_under_its_old_path_it_does_not_recur(moved: Moved) -> None:
    """Its new path does: under both it would run twice each time."""
    moved._source = moved._source.replace("@task_options()", "@task_options(trigger='Interval(hours=1)')")
    moved.move(f"from {moved.package}.new import mail\n")
    drain()
    assert TaskRun.objects.get().outcome == RunOutcome.DONE
    handler = find(code_of_function(moved.path))
    assert handler
    assert handler.recurs_by is None


def test_an_executor_tells_which_functions_it_has_imported_since_it_started(moved: Moved) -> None:
    moved.move(f"from {moved.package}.new import mail\n")
    bench = Bench()
    try:
        assert Executor.objects.get().codes == []
        registry.clear()
        find_it(moved)
        assert bench.lease.renew()
        assert code_of_function(moved.path) in Executor.objects.get().codes
    finally:
        bench.end()


def find_it(moved: Moved) -> None:
    from django_delayed_tasks.handlers.functions import load_function

    load_function(code_of_function(moved.path), moved.path, None)


def test_it_is_not_named_before_an_executor_has_looked(moved: Moved) -> None:
    bench = Bench()
    try:
        registry.clear()
        assert [one.kind for one in stats.problems()] == []
    finally:
        bench.end()
