"""Which tests run where."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness import ROOT
from harness.suite import changes, choice
from harness.suite.parts import (
    ALONE,
    DATABASES,
    JOINED,
    NOT_QUICK,
    ONLY_ON,
    PARTS,
    PER_DATABASE,
    SCENARIOS,
    TURNS,
    by_part,
    can_run,
    files_of_tests,
    is_within,
    part_of,
    runs_on,
)
from harness.suite.steps import Step

CLUSTERS = ["tests/galera/nodes", "tests/groupreplication/nodes", "tests/groupreplication/single"]
"""Tests that others run, on clusters that they start."""


def files_of(step: Step) -> list[str]:
    return [word for word in step.command if word.startswith("tests/")]


def placed(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Each file of tests with the database that runs it."""
    return [(file, str(step.database)) for step in steps for file in files_of(step)]


def test_each_file_runs_once_on_each_database_that_it_is_for(tmp_path: Path) -> None:
    landing = placed([*choice.landing(DATABASES, tmp_path), *choice.faults(DATABASES, tmp_path)])
    assert len(landing) == len({*landing})
    assert {*landing} == {
        (file, on)
        for file in files_of_tests()
        for on in DATABASES
        if (can_run(file, on) if part_of(file) in choice.PARTS_IN_TURN else runs_on(file, on))
    }
    on_cluster = {file for file in files_of_tests() if is_within(file, CLUSTERS)}
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


def test_parts_join_others_which_join_none() -> None:
    for joined in JOINED.values():
        assert joined.keys() | {*joined.values()} < PARTS.keys()
        assert not joined.keys() & {*joined.values()}


@pytest.mark.parametrize("turn", TURNS)
def test_a_landing_has_one_turn_of_the_faults_and_what_only_sqlite_has(tmp_path: Path, turn: tuple[str, str]) -> None:
    steps = [step for step in choice.landing(DATABASES, tmp_path, turn) if step.name in choice.PARTS_IN_TURN]
    assert {(step.name, step.database) for step in steps} == {turn, ("faults", "sqlite")}
    [on_sqlite] = [step for step in steps if step.database == "sqlite"]
    assert SCENARIOS not in files_of(on_sqlite)
    assert "tests/harness/torture/test_of_sqlite.py" in files_of(on_sqlite)


def test_everything_has_every_fault_on_every_database(tmp_path: Path) -> None:
    steps = [*choice.landing(DATABASES, tmp_path), *choice.faults(DATABASES, tmp_path)]
    assert {on for file, on in placed(steps) if file == SCENARIOS} == {*DATABASES}
    assert {(step.name, step.database) for step in steps} > {*TURNS}


def test_the_commit_chooses_the_turn() -> None:
    assert choice.turn_of_commit(DATABASES) in TURNS
    assert choice.turn_of_commit(["sqlite", "mysql"]) is None
    assert choice.turn_of_commit(["sqlite", "postgres"]) in {("faults", "postgres"), ("proofs", "postgres")}


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


OURS = {
    "make verify",
    "tests/groupreplication/test_nodes.py",
    "tests/harness/commands/test_matrix.py",
    "tests/seekdb/test_promises.py",
}
"""What depends on files of its own alone."""
SITE = {f"tests/outside/test_site{way}.py" for way in ("", "_in_browser", "_search")}
FOLLOWED = {f"tests/outside/test_{name}.py" for name in ("clean_room", "migrations", "wagtail")}
STATELESS = {"make verify", "tests/harness/commands/test_matrix.py"}
"""What of it knows no statements."""
ON_CLUSTERS = {tests for tests, places in changes.DEPENDS.items() if places is changes.CLUSTER}
ALL = {*changes.DEPENDS}


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        (None, set()),
        ([], ALL),
        (["django_delayed_tasks/clock.py"], OURS | ON_CLUSTERS),
        (["django_delayed_tasks/store/sql/transactions.py"], STATELESS),
        (["harness/suite/parts.py"], set()),
        (["harness/browser.py"], {"make verify"}),
        (["tests/outside/packages.py"], {"make verify"} | ON_CLUSTERS),
        (["tests/store/verbs.py"], {"make verify"} | ON_CLUSTERS),
        (["tests/harness/torture/clustered.py"], {"make verify"}),
        (["tests/outside/test_alerts.py"], ALL),
        (["tests/outside/test_wagtail.py"], ALL - {"tests/outside/test_wagtail.py"}),
        (["README.md"], ALL - SITE - FOLLOWED),
        (["harness/verification/model/lanes.pml"], ALL - {"make verify"}),
        (["tests/store/test_reads.py"], ALL),
    ],
)
def test_what_nothing_has_changed_is_left_out(
    changed: list[str] | None, left_out: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "changed_files", lambda: changed)
    assert {*changes.unaffected()} == left_out


class Repository:
    """A repository of git, and the files in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *name, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self, *files: str) -> None:
        for file in files:
            (self.folder / file).write_text(file)
        self.git("add", "--all")
        self.git("commit", "--message", "some")


@pytest.fixture
def landing(tmp_path: Path) -> Repository:
    """A repository whose main has two commits, the second of which is not on the branch "change"."""
    made = Repository(tmp_path / "made")
    made.folder.mkdir()
    made.git("init", "--initial-branch", "main")
    made.commit("old", "moved")
    made.git("checkout", "-b", "change")
    (made.folder / "moved").rename(made.folder / "to")
    made.commit("new, and with ä")
    made.git("checkout", "main")
    made.commit("of main")
    return made


CHANGED = ["moved", "new, and with ä", "to"]


@pytest.mark.parametrize(
    ("onto", "merged", "expected"),
    [("main", "change", [*CHANGED, "of main"]), ("change", "main", [*CHANGED, "of main"])],
    ids=["a landing", "a branch that is brought up to date"],
)
def test_a_fresh_clone_of_a_merge_knows_what_has_changed(
    landing: Repository, monkeypatch: pytest.MonkeyPatch, onto: str, merged: str, expected: list[str]
) -> None:
    landing.git("checkout", onto)
    landing.git("merge", "--no-ff", "--no-edit", merged)
    clone = landing.folder.with_name("clone")
    landing.git("clone", str(landing.folder), str(clone))
    monkeypatch.setattr(changes, "ROOT", clone)
    assert changes.changed_files() == sorted(expected)


def test_a_landing_of_what_begins_at_main_has_its_own_changes(
    landing: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing.git("checkout", "change")
    landing.git("rebase", "main")
    landing.git("checkout", "main")
    landing.git("merge", "--no-ff", "--no-edit", "change")
    monkeypatch.setattr(changes, "ROOT", landing.folder)
    assert changes.changed_files() == sorted(CHANGED)


def test_without_a_merge_the_last_tag_is_what_counts_and_what_is_not_committed(
    landing: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "ROOT", landing.folder)
    assert changes.changed_files() is None
    landing.git("tag", "v1")
    landing.commit("later")
    (landing.folder / "old").write_text("is changed")
    (landing.folder / "unknown").touch()
    assert changes.changed_files() == ["later", "old", "unknown"]
