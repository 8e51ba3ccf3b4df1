"""Bad input of all that has to do with times: refused at every door with an error that names the value, and nothing
is written. A row that was spoilt behind the doors fails when it is due, visibly and alone.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import modify_settings

from django_delayed_tasks import Cron, Interval, Once, Task, api, register_task_handler, task_handler
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.exceptions import InvalidHandler, InvalidTask, InvalidTrigger
from django_delayed_tasks.handlers import TaskHandler, registry
from django_delayed_tasks.models import PausedQueue, Success, TaskRun
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settle import settle
from tests.complaints import PREFIX, the_only
from tests.executor.parts import claim, handler_of, registered
from tests.executor.runs import run_one
from tests.handlers.conftest import MakePackage, make_package

__all__ = ["make_package"]

KINDS = {"Cron": Cron, "Interval": Interval, "Once": Once}
NOW = "2026-06-01T00:00+00:00"
BEFORE = "2026-05-01T00:00+00:00"

TRIGGERS = {
    "Cron('61 * * * *')": "expression='61 * * * *'",
    "Cron('* * * *')": "expression='* * * *'",
    "Cron('every night')": "expression='every night'",
    "Cron('0 0 31 2 *')": "expression='0 0 31 2 *'",
    "Cron('')": "expression=''",
    "Cron(5)": "expression=5",
    "Cron('0 3 * * *', tz='Europe/Atlantis')": "tz='Europe/Atlantis'",
    "Cron('0 3 * * *', tz='')": "tz=''",
    "Cron('0 3 * * *', tz='/etc/passwd')": "tz='/etc/passwd'",
    "Interval()": "interval=",
    "Interval(minutes=0)": "interval=",
    "Interval(minutes=-5)": "interval=",
    "Interval(minutes='5')": "minutes='5'",
    "Interval(minutes=5, every='sometimes')": "every='sometimes'",
    f"Interval(minutes=5, start='{NOW}', end='{BEFORE}')": "end=",
    f"Cron('0 3 * * *', start='{NOW}', end='{BEFORE}')": "end=",
    "Interval(minutes=5, start='tomorrow')": "start='tomorrow'",
    "Interval(minutes=5, start='2026-06-01T00:00')": "start=",
    "Cron('0 3 * * *', misfire='ignore')": "misfire='ignore'",
    "Cron('0 3 * * *', misfire=None)": "misfire=None",
    "Cron('0 3 * * *', misfire='catch_up', limit=0)": "limit=0",
    "Cron('0 3 * * *', misfire='catch_up', limit=1.5)": "limit=1.5",
    "Cron('0 3 * * *', grace=-1)": "grace=-1",
    "Cron('0 3 * * *', grace='1 h')": "grace='1 h'",
    "Cron('0 3 * * *', jitter=-1)": "jitter=-1",
    "Once('soon')": "when='soon'",
    "Once('2026-06-01T00:00')": "when=",
}
"""Texts of triggers that cannot be, and what their error says."""

NO_TRIGGERS = [
    "",
    "every night",
    "Cron",
    "Cron(",
    "os.system('true')",
    "Cron('0 3 * * *', unknown=1)",
    "Interval(5)",
    5,
]
"""What is the text of none."""


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    with registry.preserved():
        registry.clear()
        yield


class Known(TaskHandler):
    biz_code = "known"

    def handle(self, task: Any) -> None: ...


def made_by(text: str) -> Any:
    """Return what Python makes of the same text in a project's code."""
    return eval(text, dict(KINDS))


def nothing_was_written() -> bool:
    return not any(model.objects.exists() for model in (TaskRow, TaskRun, Success, PausedQueue))


# In code


@pytest.mark.parametrize(("text", "said"), TRIGGERS.items())
def test_where_it_is_made(text: str, said: str) -> None:
    with pytest.raises(InvalidTrigger) as raised:
        made_by(text)
    assert said in str(raised.value)


HANDLER = """
from django_delayed_tasks import Cron, Interval, Once, TaskHandler
class Report(TaskHandler):
    biz_code = "report"
    trigger = {}
    def handle(self, task): ...
"""


@pytest.mark.parametrize(("text", "said"), TRIGGERS.items())
def test_on_a_handler(text: str, said: str, make_package: MakePackage) -> None:
    package = make_package({"task_handlers": HANDLER.format(text)})
    with modify_settings(INSTALLED_APPS={"append": package}):
        message = the_only()
    assert message.id == PREFIX + "E006"
    assert f"{package}.task_handlers cannot be imported: InvalidTrigger" in message.msg
    assert said in message.msg


ATTRIBUTES: dict[str, list[Any]] = {
    "trigger": ["0 3 * * *", timedelta(minutes=5), 5, Cron],
    "max_lateness": [0, -1, "10", True, float("nan"), timedelta(0), timedelta(days=367)],
    "pool": ["", " gateways", "g" * 51, "ddt.mutex", 5, b"gateways"],
}


@pytest.mark.parametrize(("attribute", "value"), [(name, value) for name in ATTRIBUTES for value in ATTRIBUTES[name]])
def test_attributes_of_handlers(attribute: str, value: Any) -> None:
    with pytest.raises(InvalidHandler, match=f"Careless: {attribute}="):
        register_task_handler(type("Careless", (Known,), {attribute: value}))
    with pytest.raises(InvalidHandler, match=f"{attribute}="):
        task_handler("careless", **{attribute: value})(lambda task: None)
    assert not registry.get_task_handlers()


# Where tasks are added


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "said"), [*TRIGGERS.items(), *((text, f"trigger={text!r}") for text in NO_TRIGGERS)]
)  # fmt: skip
def test_on_a_task(text: Any, said: str) -> None:
    register_task_handler(Known)
    task = Task(biz_code="known", biz_num="1", trigger=text)
    for add in (lambda: api.add_task(task), lambda: api.add_tasks([task])):
        with pytest.raises(InvalidTask) as raised:
            add()
        assert said in str(raised.value)
    assert nothing_was_written()


NAIVE = datetime(2031, 1, 1)  # noqa: DTZ001
FIELDS: dict[str, list[Any]] = {
    "expires_at": [5, "2031-01-01", NAIVE, date(2031, 1, 1), timedelta.max, datetime.max.replace(tzinfo=UTC)],
}
OPTIONS: dict[str, list[Any]] = {"if_exists": ["last", "", None, 5], "once": ["yes", 1, None]}


@pytest.mark.django_db
@pytest.mark.parametrize(("field", "value"), [(field, value) for field in FIELDS for value in FIELDS[field]])
def test_fields_of_a_task(field: str, value: Any) -> None:
    register_task_handler(Known)
    with pytest.raises(InvalidTask, match=f"^{field}="):
        api.add_task(Task(biz_code="known", biz_num="1", **{field: value}))
    assert nothing_was_written()


@pytest.mark.django_db
@pytest.mark.parametrize(("option", "value"), [(option, value) for option in OPTIONS for value in OPTIONS[option]])
def test_options_of_adding(option: str, value: Any) -> None:
    register_task_handler(Known)
    with pytest.raises(InvalidTask, match=f"^{option}={value!r}"):
        api.add_task(Task(biz_code="known", biz_num="1"), **{option: value})
    assert nothing_was_written()


@pytest.mark.django_db
def test_a_trigger_and_once() -> None:
    register_task_handler(Known)
    with pytest.raises(InvalidTask, match="once"):
        api.add_task(Task(biz_code="known", biz_num="1", trigger=Interval(minutes=1)), once=True)
    assert nothing_was_written()


@pytest.mark.django_db
@pytest.mark.parametrize("verb", [api.pause_queue, api.resume_queue])
@pytest.mark.parametrize("name", ["", " mail", "q" * 51, 5, None, "a\0b"])
def test_names_of_queues(verb: Callable[[Any], Any], name: Any) -> None:
    with pytest.raises(InvalidTask, match=r"^queue="):
        verb(name)
    assert nothing_was_written()


@pytest.mark.django_db
@pytest.mark.parametrize("verb", [api.forget, api.pause_task, api.resume_task])
@pytest.mark.parametrize(("code", "num", "field"), [("c" * 51, "1", "biz_code"), ("c", "n" * 256, "biz_num")])
def test_identities(verb: Callable[[str, str], Any], code: str, num: str, field: str) -> None:
    with pytest.raises(InvalidTask, match=f"^{field}="):
        verb(code, num)


# Behind the doors


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "said"), [*TRIGGERS.items(), ("every night", "trigger='every night'"), ("", "trigger=''")]
)
def test_a_spoilt_row_fails_visibly_and_alone(text: str, said: str) -> None:
    seen: list[str] = []
    handler = handler_of(lambda task: seen.append(task.biz_num), code="known")
    for number in ("1", "2", "3"):
        api.add_task(Task(biz_code="known", biz_num=number, when=timedelta(), trigger=Interval(minutes=5)))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_delayed_tasks_task SET trigger_text = %s WHERE biz_num = '2'", [text])
    tasks = claim(registered())
    assert len(tasks) == 3
    settle("default", [settlement for task in tasks if (settlement := run_one(task, handler, DatabaseClock()))])
    assert sorted(seen) == ["1", "3"]
    row = TaskRow.objects.get(biz_num="2")
    assert row.status == TaskStatus.FAILED
    assert said in row.last_error
    assert said in TaskRun.objects.get(biz_num="2", outcome=RunOutcome.FAILED).error
    assert TaskRow.objects.filter(status=TaskStatus.PENDING).count() == 2
    api.add_task(Task(biz_code="known", biz_num="2", trigger=Interval(minutes=5)))
    assert TaskRow.objects.get(biz_num="2").trigger == Interval(minutes=5)
