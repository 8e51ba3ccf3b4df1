"""Django's ways to write a row name the functions that write tasks."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import serializers
from django.template import Context, Template

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.models import Task
from tests.store import verbs
from tests.store.verbs import CODE, HOUR, NOW

pytestmark = pytest.mark.per_database

ROW: dict[str, Any] = {"biz_code": CODE, "biz_num": "1", "when": NOW}


def awaited(call: Callable[[], Any]) -> Any:
    async def wait() -> Any:
        return await call()

    return async_to_sync(wait)()


CALLS: dict[str, Callable[[], Any]] = {
    "objects.create": lambda: Task.objects.create(**ROW),
    "objects.bulk_create": lambda: Task.objects.bulk_create([Task(**ROW)]),
    "objects.get_or_create": lambda: Task.objects.get_or_create(**ROW),
    "objects.update_or_create": lambda: Task.objects.using("default").update_or_create(biz_num="1"),
    "objects.create async": lambda: awaited(lambda: Task.objects.acreate(**ROW)),
    "objects.bulk_create async": lambda: awaited(lambda: Task.objects.abulk_create([Task(**ROW)])),
    "objects.get_or_create async": lambda: awaited(lambda: Task.objects.filter().aget_or_create(**ROW)),
    "objects.update_or_create async": lambda: awaited(lambda: Task.objects.aupdate_or_create(biz_num="1")),
    "(…).save": lambda: Task(**ROW).save(),
    "(…).save forced": lambda: Task(**ROW).save(force_insert=True),
}


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_rows_are_not_added(db: None, name: str, there: bool) -> None:
    """Nor is an existing one got or updated: the call would work on one day and not on the next."""
    if there:
        verbs.add("1", HOUR)
    before = list(Task.objects.values())
    with pytest.raises(TaskException) as caught:
        CALLS[name]()
    said = str(caught.value)
    call = name.removesuffix(" async").removesuffix(" forced")
    assert f"Task{'' if call.startswith('(') else '.'}{call}() " in said
    assert "use add_task(Task(…))" in said
    assert list(Task.objects.values()) == before


SAVES: dict[str, Callable[[], Any]] = {
    "save": lambda: Task.objects.get().save(),
    "columns": lambda: Task.objects.get().save(update_fields=["biz_ext"]),
    "async": lambda: awaited(Task.objects.get().asave),
}


@pytest.mark.parametrize("name", SAVES)
def test_rows_are_not_saved(db: None, name: str) -> None:
    """``claim_at`` and ``version`` would not follow."""
    verbs.add("1", HOUR)
    before = list(Task.objects.values())
    with pytest.raises(TaskException, match=r"Task\(…\)\.save\(\) cannot change tasks, .* use reschedule_task"):
        SAVES[name]()
    assert list(Task.objects.values()) == before


def test_templates_do_not_save_them(db: None) -> None:
    verbs.add("1", HOUR)
    assert Template("{{ task.save }}").render(Context({"task": Task.objects.get()})) == ""


def test_rows_exactly_as_given_can_be_written(db: None) -> None:
    times = dict.fromkeys(("claim_at", "create_time", "update_time"), NOW)
    row = Task(**ROW, **times, queue="default", priority=0)
    Task._base_manager.bulk_create([row])
    Task._base_manager.update(priority=1)
    [dumped] = serializers.deserialize("json", serializers.serialize("json", Task.objects.all()))
    Task._base_manager.all().delete()
    dumped.save()  # as loaddata does
    assert Task.objects.get().priority == 1
