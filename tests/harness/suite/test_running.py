"""Steps side by side: a test that fails is run once more, alone; what passes then is named as flaky."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.suite.running import HeldServer, Runner, missed_servers, run_failed_again
from harness.suite.steps import Step, table

FLAKY = """
from pathlib import Path

def test_passes():
    pass

def test_fails_the_first_time():
    mark = Path(__file__).with_name("mark")
    is_first = not mark.exists()
    mark.touch()
    assert not is_first
"""
BROKEN = FLAKY + "\ndef test_always_fails():\n    assert False\n"


def step_of(folder: Path, source: str) -> Step:
    """A step that runs `source` as its only test file, without this project's own settings of pytest."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    options = ["-c", str(folder / "pytest.ini"), "-p", "no:django", "-o", f"cache_dir={folder / 'cache'}"]
    return Step("some", [sys.executable, "-m", "pytest", str(folder / "test_it.py"), *options], "sqlite", folder=folder)


def run(step: Step) -> Step:
    runner = Runner([step], {})
    runner.run()
    run_failed_again(runner.ended, {})
    return step


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    step = run(step_of(tmp_path, FLAKY))
    assert step.status == 0
    assert "flaky" in table([step])
    assert [name.rpartition("::")[2] for name in step.flaky] == ["test_fails_the_first_time"]


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    step = run(step_of(tmp_path, BROKEN))
    assert step.status == 1
    assert [name.rpartition("::")[2] for name in step.failed()] == ["test_always_fails"]
    assert [name.rpartition("::")[2] for name in step.flaky] == ["test_fails_the_first_time"]


@pytest.mark.parametrize(
    ("source", "status"),
    [("def test_passes():\n    pass\n", 0), ("raise SystemExit(3)\n", 2), ("", 5)],
    ids=["passed", "ended", "without a test"],
)
def test_otherwise_tests_are_run_once(tmp_path: Path, source: str, status: int) -> None:
    """A step that has run no test has failed."""
    step = run(step_of(tmp_path, source))
    assert (step.status == 0) == (status == 0)
    assert step.flaky == ()
    assert "flaky" not in table([step])


def test_tests_chosen_by_hand_are_run_once(tmp_path: Path) -> None:
    """Their output is on the terminal."""
    step = step_of(tmp_path, FLAKY)
    step.folder = None
    assert run(step).status == 1


def test_a_target_that_fails_is_run_once_more(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    step = run(Step("make it", ["sh", "-c", f"test -e {mark} || {{ touch {mark}; exit 1; }}"], folder=tmp_path / "it"))
    assert (step.status, step.flaky) == (0, ["make it"])


class Recorded(Step):
    """A step that notes when it begins, and ends at once."""

    order: list[str]

    def start(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        self.order.append(self.title)
        return super().start(environment)


@pytest.fixture
def order() -> list[str]:
    Recorded.order = []
    return Recorded.order


def recorded(folder: Path, name: str, database: str | None, expected: float = 0.0, alone: bool = False) -> Step:
    return Recorded(name, ["true"], database, {}, folder / f"{database}-{name}", alone, expected)


def test_the_longest_is_next(tmp_path: Path, order: list[str]) -> None:
    steps = [recorded(tmp_path, "store", "sqlite", 1), recorded(tmp_path, "leases", "sqlite", 3)]
    Runner([*steps, recorded(tmp_path, "make lint", None, 2)], {}, at_once=1).run()
    assert order == ["sqlite: leases", "make lint", "sqlite: store"]


class FakeServer(HeldServer):
    """A server that answers, or is gone, as the test says."""

    def __init__(self, address: str | None, gone: bool = False, said: str = "what it said") -> None:
        self.address, self.gone, self.said = address, gone, said

    def url(self) -> str | None:
        return self.address

    def has_ended(self) -> bool:
        return self.gone

    def text(self) -> str:
        return self.said


def test_what_is_alone_has_its_server_for_itself(tmp_path: Path) -> None:
    """Given one step that has a server for itself; then others begin when it has ended, and not those elsewhere."""
    noted = tmp_path / "noted"

    def say(word: str) -> str:
        return f"echo {word} >> {noted}"

    begun, go = tmp_path / "begun", tmp_path / "go"
    wait = f"touch {begun}; while ! test -e {go}; do sleep 0.01; done; {say('alone')}"

    def step(name: str, database: str | None, script: str, alone: bool = False) -> Step:
        return Step(name, ["sh", "-c", script], database, folder=tmp_path / name, is_alone=alone, expected=9)

    steps = [
        step("other", "mariadb", say("other")),
        step("alone", "mariadb", wait, alone=True),
        step("elsewhere", "sqlite", f"while ! test -e {begun}; do sleep 0.01; done; {say('elsewhere')}; touch {go}"),
    ]
    Runner(steps, {"mariadb": FakeServer("mysql://there")}).run()
    assert noted.read_text().split() == ["elsewhere", "alone", "other"]


def test_what_is_alone_on_the_machine_runs_after_all_others(tmp_path: Path, order: list[str]) -> None:
    alone, *others = [recorded(tmp_path, f"step {number}", "sqlite") for number in range(4)]
    alone.database, alone.is_alone = None, True
    Runner([alone, *others], {}).run()
    assert order[-1] == alone.title
    assert len(order) == 4
    assert alone.began > max(other.began + other.seconds for other in others)


def test_without_its_server_a_step_does_not_run(tmp_path: Path, order: list[str]) -> None:
    steps = [recorded(tmp_path, "store", "mysql"), recorded(tmp_path, "store", "sqlite")]
    runner = Runner(steps, {"mysql": FakeServer(None, gone=True)})
    runner.run()
    assert order == ["sqlite: store"]
    assert runner.ended == steps[1:]


@pytest.mark.parametrize(
    ("server", "said", "missed"),
    [
        (FakeServer("mysql://there"), "", []),
        (FakeServer(None, gone=True), "mysql could not be had:\nwhat it said\n", []),
        (FakeServer("mysql://there", gone=True), "mysql is gone in mid-run:\nwhat it said\n", ["mysql"]),
    ],
    ids=["there", "never there", "gone in mid-run"],
)
def test_only_a_server_that_was_never_there_may_be_done_without(
    server: FakeServer, said: str, missed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert missed_servers({"mysql": server}, ["mysql"]) == missed
    assert capsys.readouterr().out == said
    assert missed_servers({"mysql": server}, []) == ["mysql"] * server.has_ended()


def test_a_step_has_the_addresses_of_the_servers(tmp_path: Path) -> None:
    step = Step("env", ["sh", "-c", "echo $DATABASE_URL_MYSQL $DDT_DATABASE"], "mysql", folder=tmp_path)
    servers: dict[str, Any] = {"mysql": FakeServer("mysql://there")}
    Runner([step], servers).run()
    assert step.text() == "mysql://there mysql"
