"""``start()`` under gunicorn, whose master process forks its workers after it has loaded the application."""

import os
import re
import signal
from collections.abc import Callable
from urllib.request import urlopen

import pytest
from django.conf import settings

from django_delayed_tasks.models import Executor
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import alive, is_settled
from tests.processes.folder import Folder
from tests.processes.test_forked import MANY
from tests.processes.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.per_database

Gunicorn = Callable[..., "Server"]


class Server:
    """A gunicorn with one worker."""

    def __init__(self, child: Child) -> None:
        self.child = child

    def worker(self, count: int) -> int:
        """The process id of its worker, the so-and-so-many-th in turn."""
        self.child.wait_for(" began\n", times=count)
        return int(re.findall(r"^worker (\d+) began$", self.child.output, re.MULTILINE)[count - 1])

    def await_end(self, worker: int) -> None:
        self.child.wait_for(f"worker {worker} ended")

    def get(self, path: str) -> int:
        """The process id of the worker that answered."""
        [address] = re.findall(r"Listening at: (http://\S+)", self.child.output)
        with urlopen(f"{address}/{path}", timeout=PATIENCE) as answer:
            return int(answer.read())


@pytest.fixture
def gunicorn(start: Start) -> Gunicorn:
    def gunicorn(where: str, *options: str) -> Server:
        words = ("-m", "gunicorn", "--preload", "--workers", "1", "--bind", "127.0.0.1:0", "--timeout", "120")
        forking = ("-W", "ignore::DeprecationWarning")  # of forking with threads, which is what this is about
        more = ("--config", "python:tests.processes.gunicorn_conf", *options, "tests.processes.web:application")
        return Server(start(*forking, *words, *more, environment={"DDT_START_WHERE": where}))

    return gunicorn


class TestMasterWithAnExecutor:
    """On servers: SQLite forbids that a forked worker uses the database then."""

    __test__ = settings.DDT_DATABASE != "sqlite"

    def test_workers_that_end_do_nothing_to_the_executor_of_the_master(
        self, gunicorn: Gunicorn, folder: Folder
    ) -> None:
        server = gunicorn("master", "--max-requests", "1")
        for count in (1, 2):
            worker = server.worker(count)
            assert server.get(f"master/{count}") == worker
            server.await_end(worker)
        worker = server.worker(3)
        os.kill(worker, signal.SIGTERM)
        server.await_end(worker)
        server.worker(4)
        server.get("master/3")
        for number in ("1", "2", "3"):
            wait_until(lambda number=number: is_settled("held", number))  # type: ignore[misc]
        assert {note.pid for note in folder.notes("started")} == {server.child.pid}

        server.child.send(signal.SIGTERM)
        assert server.child.exit_code() == 0
        [listens] = re.findall(r"listened (\d+) times", server.child.output)
        assert int(listens) < MANY
        assert alive("master") is None


def test_each_worker_may_have_an_executor_of_its_own(gunicorn: Gunicorn, folder: Folder) -> None:
    server = gunicorn("workers")
    workers = [server.worker(1)]
    server.get("workers/1")
    wait_until(lambda: is_settled("held", "1"))
    os.kill(workers[0], signal.SIGTERM)
    server.await_end(workers[0])
    assert alive(f"worker-{workers[0]}") is None
    workers.append(server.worker(2))
    server.get("workers/2")
    wait_until(lambda: is_settled("held", "2"))
    assert [note.pid for note in folder.notes("started")] == workers

    server.child.send(signal.SIGTERM)
    assert server.child.exit_code() == 0
    assert not Executor.objects.filter(alive=True).exists()
