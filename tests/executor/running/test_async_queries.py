"""What the handler of an async run asks the database: queries, leases, its claim, its progress."""

import asyncio
from datetime import timedelta
from threading import current_thread, get_ident
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import connection, transaction

from django_delayed_tasks import acancel_task
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.threads import crew
from django_delayed_tasks.leases import Pool, ResourceUnavailable, mutex
from django_delayed_tasks.models import Resource, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, drain, executing
from tests.threads import in_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def write(task: Any) -> None:
    """An effect that no executor cleans away."""
    add(task.biz_num, "effect", when=timedelta(hours=1))


def effects() -> set[str]:
    return set(Task.objects.filter(biz_code="effect").values_list("biz_num", flat=True))


def the_run() -> TaskRun:
    return TaskRun.objects.get()


class TestQueries:
    def test_rows_are_read_in_chunks_between_those_of_others(self) -> None:
        """Each chunk is a call of its own in the one thread; what one has yet to read is no leftover."""
        counts: dict[str, int] = {}

        async def handle(task: Any) -> None:
            counts[task.biz_num] = 0
            async for _ in Task.objects.filter(biz_code="effect").aiterator(chunk_size=5):
                counts[task.biz_num] += 1
                await asyncio.sleep(0)

        async_handler_of(handle, max_attempts=1)
        for number in range(23):
            add(str(number), "effect", when=timedelta(hours=1))
        for number in range(3):
            add(str(number))
        drain(threads=1)
        assert counts == {"0": 23, "1": 23, "2": 23}
        assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}

    def test_all_are_made_in_one_thread_on_one_connection(self) -> None:
        seen = []

        def query() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            seen.append((current_thread().name, get_ident(), id(connection.connection)))

        async def handle(task: Any) -> None:
            assert await Task.objects.filter(biz_num=task.biz_num).aexists()
            await sync_to_async(query)()

        async_handler_of(handle, max_attempts=1)
        for number in range(20):
            add(str(number))
        drain()
        assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}
        assert len(seen) == 20
        assert len(set(seen)) == 1
        assert seen[0][0] == "coroutines' queries-1"

    def test_a_query_on_the_loop_itself_is_refused_by_django(self) -> None:
        async def handle(task: Any) -> None:
            Task.objects.exists()

        async_handler_of(handle, max_attempts=1)
        add()
        drain()
        assert "SynchronousOnlyOperation" in the_run().error

    def test_a_function_with_a_transaction(self) -> None:
        def change(task: Any) -> None:
            with transaction.atomic():
                write(task)
                if task.biz_num == "bad":
                    raise ValueError("rolled back")

        async def handle(task: Any) -> None:
            await sync_to_async(change)(task)

        async_handler_of(handle, max_attempts=1)
        for num in ("bad", "good"):
            add(num)
        drain()
        assert effects() == {"good"}

    def test_a_transaction_that_is_left_open_fails_the_run(self, caplog: pytest.LogCaptureFixture) -> None:
        """As that of a plain handler: what was written in it is lost, so the run must not be done."""
        found: list[bool] = []

        def leave_open(task: Any) -> None:
            transaction.set_autocommit(False)
            write(task)

        async def handle(task: Any) -> None:
            try:
                await sync_to_async(leave_open)(task)
            finally:
                found.append(await sync_to_async(lambda: connection.get_autocommit())())

        async_handler_of(handle, max_attempts=1)
        add()
        drain()
        assert the_run().outcome == RunOutcome.FAILED
        assert "left a transaction open on 'default': what it wrote there is rolled back" in the_run().error
        assert "code 1 left a transaction open on 'default'" in caplog.text
        assert (effects(), found) == (set(), [True])

    def test_sync_code_may_call_async_code_that_queries(self) -> None:
        async def count() -> int:
            return await Task.objects.acount()

        async def handle(task: Any) -> None:
            assert await sync_to_async(async_to_sync(count))() == 1

        async_handler_of(handle, max_attempts=1, timeout=20)
        add()
        drain()
        assert the_run().outcome == RunOutcome.DONE

    def test_other_threads_keep_their_connections_too(self) -> None:
        found = []

        def query() -> None:
            connection.ensure_connection()
            found.append(current_thread().name)

        async def handle(task: Any) -> None:
            await asyncio.to_thread(query)
            await sync_to_async(query, thread_sensitive=False)()

        async_handler_of(handle, max_attempts=1)
        add()
        drain()
        assert the_run().outcome == RunOutcome.DONE
        assert {name.rpartition("-")[0] for name in found} == {"coroutines' threads"}

    @pytest.mark.skipif(settings.DDT_DATABASE == "sqlite", reason="there is no server that could end a connection")
    def test_a_connection_that_has_died_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(crew, "IDLE", 0.0)
        numbers: list[int] = []

        def query() -> None:
            with connection.cursor() as cursor:
                cursor.execute({"mysql": "SELECT CONNECTION_ID()"}.get(connection.vendor, "SELECT pg_backend_pid()"))
                numbers.append(cursor.fetchone()[0])

        async def handle(task: Any) -> None:
            await sync_to_async(query)()

        async_handler_of(handle, max_attempts=1)
        with executing():
            for num in ("1", "2"):
                add(num)
                wait_until(lambda: TaskRun.objects.filter(biz_num=num).exists())  # noqa: B023
                if num == "1":
                    with connection.cursor() as cursor:
                        kill = {"mysql": "KILL %d"}.get(connection.vendor, "SELECT pg_terminate_backend(%d)")
                        cursor.execute(kill % numbers[0])
        assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}
        assert numbers[0] != numbers[1]


class TestClaim:
    def test_it_sees_a_request_to_stop(self) -> None:
        async def handle(task: Any) -> None:
            assert not await task.acancel_requested()
            await acancel_task("code", "1")
            while not await task.acancel_requested():
                await asyncio.sleep(0.05)
            task.progress(1.0, "stopped")

        async_handler_of(handle, max_attempts=1, timeout=20)
        add()
        drain()
        assert the_run().outcome == RunOutcome.DONE

    def test_it_asks_whether_its_claim_is_held(self) -> None:
        found: list[Any] = []

        async def handle(task: Any) -> None:
            await task.acheck_claim()
            lost = Settlement(task.claim, RunOutcome.LOST, NextState.GONE, keep=False)
            await asyncio.to_thread(settle, "default", [lost])
            try:
                await task.acheck_claim()
            except ClaimLost as error:
                found.append(str(error))
                raise

        async_handler_of(handle)
        add()
        drain()
        assert found == ["code 1: the claim is gone"]

    def test_its_progress_is_shown(self) -> None:
        seen = []

        async def handle(task: Any) -> None:
            task.progress(0.5, "half")
            while not await Task.objects.filter(progress_fraction=0.5, progress_note="half").aexists():
                await asyncio.sleep(0.05)
            seen.append(True)

        async_handler_of(handle, max_attempts=1, timeout=20)
        add()
        drain()
        assert seen == [True]


class TestLeases:
    def test_a_mutex_keeps_runs_apart(self) -> None:
        current, most = 0, 0

        async def handle(task: Any) -> None:
            nonlocal current, most
            async with mutex("index", wait=60):
                current += 1
                most = max(most, current)
                await asyncio.sleep(0.01)
                current -= 1

        async_handler_of(handle, max_attempts=1)
        for number in range(4):
            add(str(number))
        drain()
        assert most == 1
        assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}

    def test_what_a_cancelled_run_holds_is_given_back(self) -> None:
        begun = []

        async def handle(task: Any) -> None:
            async with mutex("index"):
                begun.append(task)
                await asyncio.Event().wait()

        async_handler_of(handle, max_attempts=1, timeout=2)
        add()
        with executing():
            wait_until(lambda: TaskRun.objects.exists())
            wait_until(lambda: not Resource.objects.exclude(holder="").exists())
        assert begun

        def is_free() -> bool:
            try:
                with mutex("index", wait=0):
                    return True
            except ResourceUnavailable:
                return False

        assert in_thread(is_free)

    def test_a_run_has_a_resource_of_its_pool(self) -> None:
        Pool("proxies").add("a")
        Pool("proxies").add("b")
        names = []

        async def handle(task: Any) -> None:
            names.append(task.resource.name)
            await asyncio.sleep(0.01)

        async_handler_of(handle, max_attempts=1, pool="proxies")
        for number in range(6):
            add(str(number))
        drain()
        assert len(names) == 6
        assert set(names) == {"a", "b"}
        assert not Resource.objects.exclude(holder="").exists()

    def test_it_is_given_back_after_a_timeout(self) -> None:
        Pool("proxies").add("a")

        async def handle(task: Any) -> None:
            await asyncio.Event().wait()

        async_handler_of(handle, pool="proxies", timeout=0.1, backoff=lambda self, attempt: timedelta(hours=1))
        add()
        with executing():
            wait_until(lambda: TaskRun.objects.exists())
            wait_until(lambda: not Resource.objects.exclude(holder="").exists())
