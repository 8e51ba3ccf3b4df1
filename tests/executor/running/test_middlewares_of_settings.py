"""Which middlewares there are: those of the setting, those of the documentation, and broken ones."""

import sys
from types import ModuleType
from typing import Any

import pytest

from django_delayed_tasks import TaskRun
from django_delayed_tasks.exceptions import InvalidSetting
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import middleware
from django_delayed_tasks.models import Executor as Row
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.support import forks
from tests.executor import middlewares
from tests.executor.middlewares import async_handler, events, plain_handler
from tests.executor.parts import add, drain
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.usefixtures("live_db")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "broken: KeyError: 'setting'"),
        ("missing", "missing: ImportError"),
        ("nothing", "nothing: TypeError: its factory returned None"),
    ],
)
def test_no_executor_starts_with_a_broken_one(use: Any, name: str, said: str) -> None:
    use("outer", name)
    with pytest.raises(InvalidSetting) as caught:
        Executor(ExecutorOptions(name="broken")).start()
    assert f"DELAYED_TASKS['MIDDLEWARE']: {middlewares.__name__}.{said}" in str(caught.value)
    assert not Row.objects.exists()


def test_without_middlewares_the_handler_is_called_directly() -> None:
    assert middleware._chain() is middleware._handle
    assert middleware._achain() is middleware._ahandle


def test_a_forked_child_builds_its_own(use: Any) -> None:
    use("outer")
    chains = middleware._chain(), middleware._achain()
    for forget in forks._forgetting:
        if forget.__module__ == middleware.__name__:
            forget()
    assert (middleware._chain() is chains[0], middleware._achain() is chains[1]) == (False, False)


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """The middlewares of docs/how-to/middleware.md, in the modules and in the order that it says."""
    middlewares.begin()
    settings_block, code_block = blocks(ROOT / "docs/how-to/middleware.md", "python")
    package, module = ModuleType("shop"), ModuleType("shop.task_middleware")
    exec(code_block.text, vars(module))
    monkeypatch.setitem(sys.modules, "shop", package)
    monkeypatch.setitem(sys.modules, "shop.task_middleware", module)
    chosen: dict[str, Any] = {}
    exec(settings_block.text, chosen)
    settings.DELAYED_TASKS = chosen["DELAYED_TASKS"] | {"ALLOW_UNKNOWN_CODES": True}


@pytest.mark.parametrize("kind", [plain_handler, async_handler])
@pytest.mark.usefixtures("documented")
def test_the_example_of_the_documentation(kind: Any, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="shop.task_middleware")
    kind()
    add("open")
    settings.CLOSED_QUEUES = ["closed"]
    add("closed", queue="closed")
    drain(threads=1)
    assert len([event for event in events if event.startswith("handle")]) == 1
    outcomes = dict(TaskRun.objects.values_list("biz_num", "outcome"))
    assert outcomes == {"open": RunOutcome.DONE, "closed": RunOutcome.RESCHEDULED}
    assert len([text for text in caplog.messages if " took 0." in text]) == 2
