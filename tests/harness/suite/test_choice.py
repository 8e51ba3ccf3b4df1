"""Which tests run where."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness import ROOT
from harness.suite import changes, choice
from harness.suite.parts import (
    ALONE,
    DATABASES,
    NOT_QUICK,
    ONLY_ON,
    PARTS,
    PER_DATABASE,
    by_part,
    can_run,
    files_of_tests,
    is_within,
    part_of,
    runs_on,
)
from harness.suite.steps import Step


def files_of(step: Step) -> list[str]:
    return [word for word in step.command if word.startswith("tests/")]


def placed(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Each file of tests with the database that runs it."""
    return [(file, str(step.database)) for step in steps for file in files_of(step)]


def test_each_file_runs_once_on_each_database_that_it_is_for(tmp_path: Path) -> None:
    landing = placed(choice.landing(DATABASES, tmp_path, DATABASES))
    assert len(landing) == len({*landing})
    assert {*landing} == {
        (file, on)
        for file in files_of_tests()
        for on in DATABASES
        if (can_run(file, on) if part_of(file) == "faults" else runs_on(file, on))
    }
    on_cluster = {file for file in files_of_tests() if is_within(file, ["tests/galera/nodes"])}
    assert {file for file, _ in landing} == {*files_of_tests()} - on_cluster


def test_everything_has_what_a_landing_leaves_out(tmp_path: Path) -> None:
    """Given a file that knows no database; then it runs on SQLite, and on servers only with everything."""
    everything = placed(choice.rest(DATABASES, tmp_path))
    assert [on for file, on in everything if file == "tests/testing/test_travel.py"] == ["mariadb", "postgres", "mysql"]
    assert [on for file, on in everything if file == "tests/races/test_locked.py"] == ["mysql"]


def test_tables_name_what_is_there() -> None:
    places = [*PER_DATABASE, *ALONE, *ONLY_ON, *(path for paths in PARTS.values() for path in paths), *changes.DEPENDS]
    places.remove("make verify")
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_each_part_has_tests() -> None:
    assert by_part(files_of_tests()).keys() == PARTS.keys() == choice.EXPECTED.keys() - {"alone"}


def test_faults_are_for_one_database_of_a_landing(tmp_path: Path) -> None:
    landing = choice.landing(DATABASES, tmp_path, ["postgres"])
    assert [step.database for step in landing if step.name == "faults"] == ["postgres"]


@pytest.mark.parametrize("database", DATABASES)
def test_faults_are_there_on_each_database(tmp_path: Path, database: str) -> None:
    names = {(step.database, step.name) for step in choice.landing(DATABASES, tmp_path, [database])}
    assert (database, "faults") in names


def test_the_commit_chooses_the_database_of_faults() -> None:
    assert choice.database_of_faults(["mysql"]) == "mysql"
    assert choice.database_of_faults(DATABASES) in DATABASES


def test_with_sqlite_alone_the_long_parts_are_left_out(tmp_path: Path) -> None:
    names = {step.name for step in choice.steps("tests", ["sqlite"], [], tmp_path)}
    assert names & {*NOT_QUICK} == set()
    assert {"store", "leases"} < names


def test_tests_chosen_by_hand_run_on_each_database(tmp_path: Path) -> None:
    steps = choice.steps("tests", ["sqlite", "mysql"], ["-k", "reap"], tmp_path)
    assert [(step.database, step.command[-2:], dict(step.environment)) for step in steps] == [
        ("sqlite", ["-k", "reap"], {}),
        ("mysql", ["-k", "reap"], {}),
    ]


OURS = {"make verify", "tests/harness/commands/test_matrix.py"}
"""What depends on files of its own alone."""
SITE = {f"tests/outside/test_site{way}.py" for way in ("", "_in_browser")}


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        (None, set()),
        ([], {*changes.DEPENDS}),
        (["django_delayed_tasks/clock.py"], OURS),
        (["harness/suite/parts.py"], set()),
        (["tests/outside/test_alerts.py"], set()),
        (["README.md"], {*changes.DEPENDS} - SITE),
        (["harness/verification/model/lanes.pml"], {*changes.DEPENDS} - {"make verify"}),
        (["tests/store/test_reads.py"], {*changes.DEPENDS}),
    ],
)
def test_what_nothing_has_changed_is_left_out(
    changed: list[str] | None, left_out: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "changed_files", lambda: changed)
    assert {*changes.unaffected()} == left_out
