"""The machinery that measures other queues, without installing any of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import ROOT
from harness.benchmarks.bench import Bench
from harness.benchmarks.cases import lateness, peers
from harness.benchmarks.figures import Figures
from harness.benchmarks.peers import environments, recorder, workers
from harness.benchmarks.peers.catalogue import PEERS, WORKERS, Peer
from harness.benchmarks.peers.environments import NotMeasured

TWO_PROCESSES = """
import os
from harness.benchmarks.peers.recorder import executed
executed()
if os.fork() == 0:
    for _ in range(3):
        executed()
    os._exit(0)
os.wait()
executed()
"""
THREE_STARTS = """
from time import monotonic
from harness.benchmarks.peers.recorder import started
for _ in range(3):
    started(monotonic() - 5)
"""
ONE_EXECUTION = "import time; from harness.benchmarks.peers.recorder import executed; executed(); time.sleep(60)"


@pytest.fixture
def own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter of the tests is that of the peers."""
    monkeypatch.setattr(environments, "python", lambda: sys.executable)


def test_executions_of_a_process_and_of_its_fork_are_all_noted(tmp_path: Path) -> None:
    environment = {**os.environ, recorder.FOLDER: str(tmp_path), recorder.CAPACITY: "10"}
    subprocess.run([sys.executable, "-c", TWO_PROCESSES], env=environment, cwd=ROOT, check=True)
    assert len(recorder.executions(tmp_path)) == 5
    assert len(list(tmp_path.iterdir())) == 2


def test_a_start_is_noted_with_how_late_it_is(tmp_path: Path) -> None:
    environment = {**os.environ, recorder.FOLDER: str(tmp_path), recorder.CAPACITY: "3"}
    subprocess.run([sys.executable, "-c", THREE_STARTS], env=environment, cwd=ROOT, check=True)
    starts = recorder.starts(tmp_path)
    assert [round(late, 1) for _, late in starts] == [5.0, 5.0, 5.0]
    moments = [moment for moment, _ in starts]
    assert moments == sorted(moments)


@pytest.mark.usefixtures("own_python")
def test_a_worker_that_executes_too_little_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    with pytest.raises(NotMeasured, match="after 1 of 2"):
        workers.drain_rate(("python", "-c", ""), ("python", "-c", ONE_EXECUTION), {}, tasks=2, workers=1)


@pytest.mark.usefixtures("own_python")
def test_a_worker_that_ends_is_not_measured() -> None:
    broken = ("python", "-c", "raise SystemExit('no such option')")
    with pytest.raises(NotMeasured, match="no such option"):
        workers.drain_rate(("python", "-c", ""), broken, {}, tasks=2, workers=1)


@pytest.mark.usefixtures("own_python")
def test_more_executions_than_tasks_are_not_measured() -> None:
    twice = ("python", "-c", ONE_EXECUTION.replace("executed();", "executed(); executed();"))
    with pytest.raises(NotMeasured, match="1 tasks were due, 2 executions"):
        workers.drain_rate(("python", "-c", ""), twice, {}, tasks=1, workers=1)


def test_without_node_its_peers_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(NotMeasured, match="node and npm"):
        environments.node()


def test_a_failed_installation_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_FOLDER", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: name)
    tried: list[object] = []

    def fail(command: object) -> None:
        tried.append(command)
        raise NotMeasured("offline")

    monkeypatch.setattr(environments, "_install", fail)
    for _ in range(2):
        with pytest.raises(NotMeasured, match="offline"):
            environments.node()
    assert len(tried) == 1


def test_a_peer_that_fails_is_left_out_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def measure_peer(bench: Bench, stores: object, database: str, peer: Peer) -> None:
        tried.append(peer.name)
        if peer.name == "django-ox":
            raise RuntimeError("no such option")
        bench.note(database, peer.name, "default", "tasks/s", 1.0)

    monkeypatch.setattr(peers, "measure_peer", measure_peer)
    bench = Bench(("mariadb",), repeats=2, case="peers")
    peers.measure(bench)
    assert bench.figures.missing == {("peers", "mariadb", "django-ox"): "RuntimeError: no such option"}
    assert {figure.subject for figure in bench.figures.values} == {"django-tasks-db", "dj-queue", "huey"}
    assert tried.count("django-ox") == 1


def test_without_celery_the_product_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> list[float]:
        raise NotMeasured("no worker answers")

    monkeypatch.setattr("harness.benchmarks.peers.celery_lateness.lateness", fail)
    for name in ("known_ahead", "added_at_once"):
        monkeypatch.setattr(lateness, name, lambda *_, **__: [0.001])
    bench = Bench(("sqlite",), repeats=1, case="lateness")
    lateness.measure(bench)
    assert bench.figures.missing == {("lateness", "redis", "celery"): "NotMeasured: no worker answers"}
    assert {figure.subject for figure in bench.figures.values} == {"django-delayed-tasks"}


def test_redis_is_measured_with_mariadb() -> None:
    assert {database for database, _ in peers.measured_on(("mariadb",))} == {"mariadb", "redis"}
    assert {database for database, _ in peers.measured_on(("postgres", "sqlite"))} == {"postgres", "sqlite"}


def test_goals_compare_with_the_best_way_of_a_peer() -> None:
    goal = peers.GOALS[0]
    figures = Figures()
    figures.note(goal.of, 1200.0)
    for number, figure in enumerate(goal.to, start=1):
        figures.note(figure, float(number))
    ways = sum(len(peer.ways) for peer in PEERS if peer.name in {"django-tasks-db", "django-ox", "dj-queue"})
    assert len(goal.to) == ways * len(WORKERS)
    assert goal.value(figures) == 1200.0 / len(goal.to)
