"""The examples of the pages about tasks do what the pages say."""

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from unittest import mock

import pytest
from django.db import connection
from django.utils import timezone

from django_delayed_tasks import Task, TaskHandler, add_task, get_task_handlers
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.testing import declare_recurring, make_task, run_due_tasks, run_until, scheduled_tasks
from tests.docs.shop import Order, Promotion
from tests.docs.shown import know, shown

pytestmark = pytest.mark.usefixtures("in_shop")

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
DONE = RunOutcome.DONE


def waiting(code: str) -> list[str]:
    """Return the numbers of this code's pending tasks, in the order in which they become due."""
    return [task.biz_num for task in scheduled_tasks(code)]


def add(code: str, *numbers: str) -> None:
    for number in numbers:
        add_task(Task(biz_code=code, biz_num=number, when=DAY))


def test_first_page() -> None:
    promotion = Promotion.objects.create(ends_at=timezone.now() + DAY)
    with shown("index.md") as page:
        page.run()
    assert [run.get_outcome_display() for run in page["end_promotion"].runs("12")] == ["cancelled"]
    page["end_promotion"].schedule(promotion.pk, 3 * DAY)
    page["end_promotion"].reschedule(promotion.pk, 5 * DAY)
    assert run_until(5 * DAY - MINUTE).outcomes == []
    assert [outcome for *_, outcome in run_until(5 * DAY).outcomes] == [DONE]
    promotion.refresh_from_db()
    assert not promotion.active


def test_cancel_and_reschedule() -> None:
    know("send-mail", "end-promotion")
    with shown("how-to/cancel-and-reschedule.md") as page:
        add("end-promotion", "2026-spring-1")
        page.run()
        assert waiting("end-promotion") == ["13"]

        for number in ("offer-77-1", "offer-78-1", "offer-78-2"):
            add_task(Task(biz_code="send-mail", biz_num=number, when=HOUR))
        Task._base_manager.filter(biz_num="offer-78-2").update(status=TaskStatus.FAILED, update_time=timezone.now())
        page.run()
        assert sorted(waiting("send-mail")) == ["offer-78-1", "offer-78-2"]
        assert all(task.when > timezone.now() + HOUR + 59 * MINUTE for task in scheduled_tasks("send-mail"))
        registry.clear()
        page.run()

    promotion = Promotion.objects.create(ends_at=timezone.now() + HOUR)
    add_task(Task(biz_code="end-promotion", biz_num=promotion.pk))
    assert [outcome for *_, outcome in run_until(2 * HOUR).outcomes] == [RunOutcome.RESCHEDULED, DONE]
    promotion.refresh_from_db()
    assert not promotion.active


def test_once(capsys: pytest.CaptureFixture[str], delayed_tasks: ModuleType) -> None:
    know("welcome", "send-offer", "index")
    offer = SimpleNamespace(starts_at=timezone.now() + HOUR, ends_at=timezone.now() + DAY)
    with shown("how-to/once.md", offer=offer) as page:
        add_task(Task(biz_code="welcome", biz_num="customer-47"), once=True)
        run_due_tasks()
        page.run()
        assert capsys.readouterr().out == "It has been done.\n"
        page.run()
        assert delayed_tasks.assert_scheduled("send-offer", "12", when=offer.starts_at).expires_at == offer.ends_at
        assert page["RemindOfMeeting"].max_lateness == 10 * MINUTE
        page.run()
        with delayed_tasks.travel(by=5 * MINUTE):
            for number, if_exists in (("12", "latest"), ("13", "earliest")):
                page["index_document"](number, if_exists=if_exists)
    latest, earliest = (Task.objects.get(biz_code="index", biz_num=number).when for number in ("12", "13"))
    assert 4 * MINUTE < latest - earliest < 6 * MINUTE


def test_recurring(capsys: pytest.CaptureFixture[str], delayed_tasks: ModuleType) -> None:
    know("check-shop")
    send_report = mock.Mock()
    with shown("how-to/recurring.md", send_report=send_report, fetch_entries=lambda after: "abc") as page:
        page.run()
        declare_recurring()
        [night] = scheduled_tasks("nightly-report")
        run_until(DAY)
        send_report.assert_called_with(until=night.when)

        page.run()
        assert waiting("check-shop") == []
        page.run()
        first, *moments = capsys.readouterr().out.splitlines()
        assert (first != "", len(moments)) == (True, 5)
        assert all(datetime.fromisoformat(moment).weekday() == 0 for moment in moments)

        page.run()
        declare_recurring("read-feed")
        assert len(run_until(15 * MINUTE).of("read-feed")) == 3
        assert Task.objects.get(biz_code="read-feed").biz_ext == {"last": 9}
        page.run()
    delayed_tasks.assert_scheduled("nightly-report", when=timedelta(), within=timedelta(seconds=5))


def test_api() -> None:
    know("end-promotion", "fetch")
    with shown("reference/api.md", url="https://shop.example/") as page:
        page.run()
        [task] = scheduled_tasks("end-promotion")
        assert task.biz_ext == {"percent": 20}
        page.run()
        assert [len(number) for number in waiting("fetch")] == [64]
        add("end-promotion", "2026-spring-1")
        page.run()
    assert waiting("end-promotion") == ["12"]


def test_faq(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas: list[str] = []
    tenants = ModuleType("django_tenants.utils")
    vars(tenants).update(get_public_schema_name=lambda: "public", schema_context=lambda name: entered(schemas, name))
    monkeypatch.setitem(sys.modules, "django_tenants", ModuleType("django_tenants"))
    monkeypatch.setitem(sys.modules, "django_tenants.utils", tenants)
    monkeypatch.setattr(connection, "schema_name", "berlin", raising=False)
    know("cancel-unpaid-order")
    with shown("explanation/faq.md", Order=Order) as page:
        page.run()
        assert waiting("cancel-unpaid-order") == [Order.objects.get().number]
        page.run()
        page.run(CancelUnpaidOrder=type("CancelUnpaidOrder", (TaskHandler,), {"handle": lambda self, task: None}))
    assert set(get_task_handlers()) == {"cancel-order", "cancel-unpaid-order"}
    run = page["InSchemaOfTask"](lambda run: [*schemas])
    numbers = (page["number_of"](17), "recurring")
    assert [run(SimpleNamespace(task=Task(biz_num=number))) for number in numbers] == [["berlin"], ["public"]]
    assert schemas == []


@contextmanager
def entered(schemas: list[str], name: str) -> Iterator[None]:
    schemas.append(name)
    yield
    schemas.remove(name)


def test_scaling() -> None:
    with shown("explanation/scaling.md") as page:
        page.run()
        add_ = page.names["add_task"] = mock.Mock()
        page.run()
    assert page["DatabaseWrapper"].features_class.minimum_database_version == (5, 7)
    page["remind"](47, timezone.now())
    assert page["shard_of"](47) == f"shard{zlib.crc32(b'47') % 4}"
    assert add_.call_args.kwargs == {"using": page["shard_of"](47)}


def test_limits(capsys: pytest.CaptureFixture[str]) -> None:
    with shown("how-to/limits.md") as page:
        page.run_all()
    page["crawl"](make_task("crawl", "1", resource=SimpleNamespace(payload={"address": "10.1.0.7"})))
    for code, data in (("tell-partner", None), ("import", {"customer": "7"}), ("fetch", {"host": "a"})):
        add_task(Task(biz_code=code, biz_num=1, biz_ext=data))
    run_due_tasks()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "crawling through 10.1.0.7"
    assert sorted(said[1:]) == ["fetching 1", "importing 1", "telling the partner about 1"]


def test_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    know("late", "soon")
    add_task(Task(biz_code="late", biz_num=1, when=datetime(2026, 1, 1, tzinfo=UTC)))
    add_task(Task(biz_code="soon", biz_num=1, when=HOUR))
    with shown("reference/stats.md") as page:
        page.run()
    said = capsys.readouterr().out
    assert "{'soon': 1}" in said
    assert "No executor is alive" in said
