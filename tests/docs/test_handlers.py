"""The examples of the pages about handlers do what the pages say."""

import asyncio
import sys
import urllib.error
import urllib.request
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from django_delayed_tasks import Retry, Task, add_task
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.testing import make_task, run_due_tasks, run_until
from tests.docs.shop import Order, Parcel, Promotion
from tests.docs.shown import know, shown

pytestmark = pytest.mark.usefixtures("in_shop")

DONE, RETRIED, FAILED, RESCHEDULED = RunOutcome.DONE, RunOutcome.RETRIED, RunOutcome.FAILED, RunOutcome.RESCHEDULED
HOUR = timedelta(hours=1)


def outcomes(until: timedelta = timedelta()) -> list[tuple[str, str, RunOutcome]]:
    """Run what is due until then; return code, number and outcome of each run."""
    return list(run_until(until).outcomes if until else run_due_tasks().outcomes)


def test_write_handlers() -> None:
    know("remind-customer")
    bank = mock.Mock()
    lines: list[str] = []
    work: dict[str, Any] = {"slow_calculation": len, "bank": bank, "read_file": str.split, "import_row": lines.append}
    with shown("how-to/write-handlers.md", **work) as page:
        add_task(Task(biz_code="remind-customer", biz_num=47))
        page.run()
        assert outcomes() == []
        page.names["__name__"] = "shop.task_handlers"
        registry.clear()
        page.run_all()

    add_task(Task(biz_code="remind-customer", biz_num="47", biz_ext={"sent": 0}))
    assert [outcome for *_, outcome in outcomes(timedelta(days=5))] == [RESCHEDULED, RESCHEDULED, DONE]

    for number in ("A-1", "A-2", "A-3"):
        add_task(Task(biz_code="fetch-parcel-state", biz_num=number))
    assert [outcome for *_, outcome in outcomes()] == [DONE, FAILED, RETRIED]

    Order.objects.create(number="A-1")
    Order.objects.create(number="A-2", paid=True)
    for code in ("cancel-unpaid-order", "collect-points"):
        for number in ("A-1", "A-2"):
            add_task(Task(biz_code=code, biz_num=number))
    outcomes()
    assert list(Order.objects.values_list("number", "cancelled", "points")) == [("A-1", True, 10), ("A-2", False, 10)]

    task = make_task("pay-out", "A-1")
    page["pay_out"](task)
    bank.transfer.assert_called_once_with(3, reference="A-1")
    assert task.claim_checks == 1

    stock = make_task("import-stock", "a b")
    page["import_stock"](stock)
    assert (lines, stock.reports) == (["a", "b"], [(0.0, "row 0"), (0.5, "row 1")])

    page["recount_stock"](make_task("recount-stock", cancel_requested=True))
    add_task(Task(biz_code="ask-carrier", biz_num="1"))
    assert outcomes() == [("ask-carrier", "1", DONE)]


def test_handlers_reference(delayed_tasks: ModuleType) -> None:
    promotion = Promotion.objects.create(pk=12, ends_at=timezone.now() + HOUR)
    order = Order.objects.create(number="A-1047")
    with shown("reference/handlers.md", Order=Order, Promotion=Promotion, promotion=promotion) as page:
        page.run().run()
        delayed_tasks.assert_scheduled("cancel-unpaid-order", "A-1047", when=timedelta(minutes=30))
        delayed_tasks.assert_scheduled("end-promotion", "12", when=promotion.ends_at, queue="promotions")
        run_until(HOUR)
        order.refresh_from_db()
        promotion.refresh_from_db()
        assert (order.cancelled, promotion.active) == (True, False)
        page.run().run()
    assert timedelta() <= page["Polite"]().backoff(3) <= timedelta(minutes=4)
    assert delayed_tasks.scheduled_tasks() == []


def test_retries() -> None:
    with shown("how-to/retries.md") as page:
        page.run_all()
    assert timedelta(seconds=0) < page["CallTheBank"]().backoff(1) <= timedelta(seconds=30)
    assert page["CallTheBank"]().backoff(30) <= timedelta(hours=6)
    assert page["ask_the_bank"].handler.backoff(3) == timedelta(minutes=30)
    with mock.patch.object(urllib.request, "urlopen", side_effect=urllib.error.URLError("no route")):
        answer = page["tell_warehouse"](make_task("tell-warehouse", "A-1"))
    assert isinstance(answer, Retry)
    assert "no route" in answer.reason


def test_a_failed_charge_is_mailed_and_failed_tasks_are_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    with shown("how-to/retries.md") as page:
        for _ in range(4):
            page.run()
        page.names["mail_admins"] = sent = mock.Mock()
        page["ChargeCard"].handle = lambda self, task: 1 / 0
        add_task(Task(biz_code="charge-card", biz_num="A-1"))
        run_until(timedelta(days=1))
        [(subject, error)] = [call.args for call in sent.call_args_list]
        assert subject == "charge-card A-1 failed: ZeroDivisionError"
        assert "division by zero" in error
        page.run()
    assert "charge-card A-1" in capsys.readouterr().out
    assert len(run_due_tasks()) == 1


def test_batches() -> None:
    for number in (1, 2, 3):
        Promotion.objects.create(pk=number)
    answers = [SimpleNamespace(ok=True), SimpleNamespace(ok=False, reason="the bank is closed")]
    gateway = SimpleNamespace(refund_many=lambda payments: answers[: len(payments)])
    with shown("how-to/batches.md", Promotion=Promotion, gateway=gateway, Retry=Retry) as page:
        page.run_all()
    for number in (1, 2):
        add_task(Task(biz_code="end-promotion", biz_num=number))
    assert [outcome for *_, outcome in outcomes()] == [DONE, DONE]
    assert list(Promotion.objects.filter(active=True).values_list("pk", flat=True)) == [3]

    tasks = [make_task("refund", str(number), biz_ext={"payment": number}) for number in (1, 2)]
    first, second = page["handle_batch"](None, tasks)
    assert first is None
    assert second.reason == "the bank is closed"


class Carrier:
    """Answers in the place of httpx."""

    status_code = 503

    async def __aenter__(self) -> "Carrier":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def get(self, url: str) -> Any:
        return SimpleNamespace(status_code=self.status_code, json=lambda: {"state": url.rpartition("/")[2]})


def test_async(monkeypatch: pytest.MonkeyPatch, delayed_tasks: ModuleType) -> None:
    know("cancel-unpaid-order")
    monkeypatch.setitem(sys.modules, "httpx", SimpleNamespace(AsyncClient=Carrier))
    monkeypatch.setattr(asyncio, "sleep", mock.AsyncMock())
    with shown("how-to/async.md", Order=Order, Parcel=Parcel, asyncio=asyncio) as page:
        page.run()
        async_to_sync(page["place_order"])(None, "A-1")
        assert async_to_sync(page["waiting_orders"])(None).content == b'{"orders": ["A-1"]}'
        assert async_to_sync(page["pay_order"])(None, "A-1").content == b'{"cancelled": "CANCELLED"}'
        page.run()
        async_to_sync(page["place_order"])(None, "A-2")
        delayed_tasks.assert_scheduled("cancel-unpaid-order", Order.objects.get().number)
        page.run().run()

    Parcel.objects.create(number="A-3", state="sent")
    for code, status in (("ask-carrier", 503), ("ask-carrier", 200), ("ping", 200)):
        Carrier.status_code = status
        add_task(Task(biz_code=code, biz_num="A-3"))
        assert outcomes() == [(code, "A-3", RETRIED if status == 503 else DONE)]
    assert Parcel.objects.get().state == "A-3"

    watched = make_task("watch-parcel", cancel_requested=True)
    async_to_sync(page["watch_parcel"])(watched)
    assert watched.claim_checks == 1


def test_middleware(settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="shop.task_middleware")
    know("count")
    with shown("how-to/middleware.md", __name__="shop.task_middleware") as page:
        page.run_all()
    module = ModuleType("shop.task_middleware")
    vars(module).update(page.names)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    settings.DELAYED_TASKS = page["DELAYED_TASKS"]
    settings.CLOSED_QUEUES = ["closed"]
    add_task(Task(biz_code="count", biz_num="1"))
    add_task(Task(biz_code="count", biz_num="2", queue="closed"))
    assert sorted(outcomes()) == [("count", "1", DONE), ("count", "2", RESCHEDULED)]
    assert len([text for text in caplog.messages if " took 0." in text]) == 2


def test_style() -> None:
    with shown("contributing/style.md") as page:
        page.run()
    assert page["seconds_until_next"].__doc__.startswith("Return ")
