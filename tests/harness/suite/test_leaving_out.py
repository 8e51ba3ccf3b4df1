"""Tests that need what cannot be had here are left out by name, which is said at the end; ``make test-all`` fails."""

import sys
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness.suite import __main__ as suite
from harness.suite import choice
from harness.suite.leaving_out import LEFT_OUT, left_out
from harness.suite.running import Runner
from harness.suite.steps import Step
from tests.harness.suite.test_running import FakeServer

SOURCE = """
import pytest
from harness.servers.downloads import CannotBeHad

@pytest.fixture
def hourglass():
    raise CannotBeHad("Sand cannot be had here: dig failed:\\n  no shovel")

def test_with_a_fixture(hourglass):
    pass

def test_by_itself():
    raise CannotBeHad("Water cannot be had here")

def test_without():
    pass
"""
WITH_A_FAILURE = SOURCE + "\ndef test_that_fails():\n    assert False\n"
SAND = "sqlite: test_it.py::test_with_a_fixture"
WATER = "sqlite: test_it.py::test_by_itself"


def step_of(folder: Path, source: str = SOURCE) -> Step:
    """A step that runs `source` as its only test file, with the plugin, and without this project's own settings."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    options = ["-c", str(folder / "pytest.ini"), "-p", "no:django", "-p", "harness.suite.leaving_out"]
    command = [sys.executable, "-m", "pytest", str(folder / "test_it.py"), *options, "-o", f"cache_dir={folder}/cache"]
    return Step("some", command, "sqlite", folder=folder)


def run(what: str, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str = SOURCE) -> int:
    """The exit status of the suite, if it consists of this step."""
    monkeypatch.setenv(LEFT_OUT, "")  # and what it was afterwards
    monkeypatch.setattr(choice, "steps", lambda *_: [step_of(folder, source)])
    return suite.run(Namespace(what=what, databases=["sqlite"], optional=[], options=["-q"]), folder)


def test_what_and_why_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEFT_OUT, str(tmp_path / "noted"))
    step = step_of(tmp_path)
    Runner([step], {}).run()
    assert step.status == 0
    assert step.closing_line().startswith("1 passed, 2 skipped")
    assert left_out(tmp_path / "noted") == {
        SAND: "Sand cannot be had here: dig failed:\n  no shovel",
        WATER: "Water cannot be had here",
    }


def test_it_is_said_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("tests", tmp_path, monkeypatch) == 0
    said = capsys.readouterr().out
    assert "Sand cannot be had here: dig failed:\n  no shovel\n" in said
    *_, heading, sand, water, _, verdict = said.splitlines()
    assert heading == "Left out, since what they need cannot be had here:"
    assert sand == f"  {SAND}: Sand cannot be had here: dig failed:"
    assert water == f"  {WATER}: Water cannot be had here"
    assert verdict == "All others passed."


def test_what_fails_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", tmp_path, monkeypatch, WITH_A_FAILURE) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: sqlite: some"


def test_where_everything_was_asked_for_it_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("all", tmp_path, monkeypatch) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"FAILED: {SAND}, {WATER}"


def test_a_database_that_may_be_done_without_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {
        "mysql": FakeServer(None, gone=True, said="Making it ...\nharness.servers: MySQL cannot be had here: no\n")
    }
    monkeypatch.setattr(suite, "held_servers", lambda databases: nullcontext(servers))
    monkeypatch.setattr(choice, "steps", lambda *_: [Step("some", ["true"], "sqlite", folder=tmp_path)])
    given = Namespace(what="check", databases=["sqlite", "mysql"], optional=["mysql"], options=[])
    monkeypatch.setenv(LEFT_OUT, "")  # and what it was afterwards
    assert suite.run(given, tmp_path) == 0
    *_, heading, named, _, verdict = capsys.readouterr().out.splitlines()
    assert heading == "Left out, since what they need cannot be had here:"
    assert named == "  mysql: all tests on it: MySQL cannot be had here: no"
    assert verdict == "All others passed."
    given.optional = []
    assert suite.run(given, tmp_path) == 1
