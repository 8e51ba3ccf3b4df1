import time
from threading import Lock
from typing import Any
from django_delayed_tasks.models import Task, TaskRun, Resource
from tests.executor.parts import add, executing, handler_of
from django_delayed_tasks import api
from django_delayed_tasks.leases.pool import Pool


def test_concurrent(transactional_db: None) -> None:
    lock, now, most = Lock(), [0], [0]
    def handle(task: Any) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
    handler_of(handle, max_concurrent=3)
    handler_of(lambda task: None, code="other")
    for n in range(60):
        add(str(n))
    add("x", code="other")
    began = time.monotonic()
    with executing(threads=8, drain=True) as executor:
        assert executor.drained.wait(30)
    print("took", time.monotonic() - began, most, TaskRun.objects.filter(attempt=1).count())
    assert most == [3]
    assert TaskRun.objects.count() == 61
    assert not Task.objects.exists()
    assert Resource.objects.count() == 3


def test_rate(transactional_db: None) -> None:
    handler_of(lambda task: None, rate="10/1s")
    for n in range(35):
        add(str(n))
    with executing(threads=8, drain=True) as executor:
        assert executor.drained.wait(30)
    started = sorted(TaskRun.objects.values_list("started", flat=True))
    print([(s - started[0]).total_seconds() for s in started])
    assert len(started) == 35


def test_pool(transactional_db: None) -> None:
    pool = Pool("p")
    for n in range(2):
        pool.add(f"r{n}", {"n": n})
    seen = []
    def handle(task: Any) -> None:
        seen.append((task.resource.name, task.resource.payload))
        time.sleep(0.02)
    handler_of(handle, pool="p")
    for n in range(10):
        add(str(n))
    with executing(threads=8, drain=True) as executor:
        assert executor.drained.wait(30)
    print(seen)
    assert len(seen) == 10
