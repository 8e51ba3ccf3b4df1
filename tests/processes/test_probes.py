"""``--health-port``: what a probe learns of an executor, or of all executors of a supervisor."""

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Task
from harness.processes_of_folder import processes_of
from tests.pages import ROOT, blocks
from tests.processes.conftest import Start
from tests.processes.database import alive, incarnations
from tests.processes.folder import Folder
from tests.processes.probing import free_port, get, wait_for
from tests.processes.waiting import wait_until


def test_an_executor_is_live_and_ready_until_it_stops(starttask: Start, folder: Folder) -> None:
    port = free_port()
    folder.shut("1")
    child = starttask("--name", "probed", "--health-port", str(port)).wait_until_ready()
    [row] = incarnations("probed")
    ready = wait_for(port, "/readyz")
    assert ready.json == {"live": True, "ready": True, "name": "probed", "executor": row.pk}
    assert (get(port, "/livez").code, get(port, "/other").code, get(port, "/metrics").code) == (200, 404, 404)

    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))
    child.send(signal.SIGTERM)
    stopping = wait_for(port, "/readyz", 503)
    assert (stopping.json["live"], stopping.json["ready"], get(port, "/livez").code) == (True, False, 200)
    folder.open_all()
    assert child.exit_code() == 0


def test_a_supervisor_answers_for_its_executors(starttask: Start, folder: Folder) -> None:
    port = free_port()
    options = ["--processes", "2", "--threads", "1", "--health-port", str(port)]
    team = starttask("--name", "team", *options)
    wait_until(lambda: all(alive(name) for name in ("team-1", "team-2")))
    wait_until(lambda: all(one["ready"] for one in wait_for(port, "/readyz").json["executors"]))
    assert [one["name"] for one in get(port, "/livez").json["executors"]] == ["team-1", "team-2"]

    first = alive("team-1")
    assert first
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: len(incarnations("team-1")) == 2)  # it answers again, on the socket that the other one left
    wait_until(lambda: all(one["ready"] for one in get(port, "/readyz").json["executors"]))
    team.send(signal.SIGTERM)
    assert team.exit_code() == 0
    assert processes_of(folder.path) == []


def test_the_probes_of_the_kubernetes_example(starttask: Start) -> None:
    [example] = blocks(ROOT / "docs/how-to/deploy.md", "yaml")
    [command] = re.findall(r"command:\s*(\[.*?])", example.text, re.DOTALL)
    probes = re.findall(r"httpGet: {path: (\S+), port: (\d+)}", example.text)
    assert len(probes) == 3
    port = free_port()
    words = [
        "127.0.0.1" if word == "0.0.0.0" else word.replace(probes[0][1], str(port)) for word in json.loads(command)
    ]
    starttask(*words[words.index("starttask") + 1 :]).wait_until_ready()
    for path, _ in probes:
        assert wait_for(port, path).code == 200


@pytest.mark.usefixtures("live_db")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--health-port", "0"], "--health-port=0: must be from 1 to 65535"),
        (["--health-port", "65536"], "--health-port=65536: must be from 1"),
        (["--metrics-port", "-1"], "--metrics-port=-1: must be from 1 to 65535"),
    ],
)
def test_wrong_options(options: list[str], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("starttask", "--drain", *options)
    assert said in str(caught.value)


@pytest.mark.parametrize("more", [[], ["--processes", "2"]])
def test_a_port_that_is_taken(starttask: Start, tmp_path: Path, more: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        child = starttask("--health-port", str(port), *more)
        assert child.exit_code() == 1
    assert f"CommandError: cannot listen on 127.0.0.1:{port}" in child.output
    assert "Traceback" not in child.output
