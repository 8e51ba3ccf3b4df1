"""How a function is called."""

from dataclasses import dataclass, fields
from typing import Any

import pytest

from django_delayed_tasks.function_tasks import data, running
from tests.executor.parts import claim, registered
from tests.function_tasks import functions

TaskClass: Any = type(functions.add_up)


@pytest.mark.django_db
def test_by_a_class_of_tasks_in_its_own_way() -> None:
    """A backend may have its own class, whose ``call`` sets up a tenant."""
    seen: list[str] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OfTenant(TaskClass):  # type: ignore[misc]
        def call(self, *args: Any, **kwargs: Any) -> Any:
            seen.append("tenant")
            return TaskClass.call(self, *args, **kwargs)

    plain: Any = functions.add_up
    task = OfTenant(**{field.name: getattr(plain, field.name) for field in fields(plain)})
    plain.enqueue(1, 2)
    [claimed] = claim(registered())
    assert running.run(task, claimed) == 3
    assert seen == ["tenant"]


def test_with_arguments_that_are_no_part_of_the_data() -> None:
    stored: dict[str, Any] = {"args": [1], "kwargs": {"start": 2}}
    args, kwargs = data.arguments_in(stored)
    args.append(3)
    kwargs.clear()
    assert stored == {"args": [1], "kwargs": {"start": 2}}
