"""A test that fails is run once more, alone; what passes then is named as flaky."""

import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from harness.scripts.run_suite import ALONE, PARTS, Part, is_covered, options_of, run_failed_again, run_lanes, table

from harness import ROOT
from harness.scripts import run_suite
from harness.servers.commands import start_command

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


def part_of(folder: Path, source: str) -> Part:
    """A part that runs `source` as its only test file, without this project's own settings of pytest."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return Part(
        "sqlite", "some", [str(folder / "test_it.py"), "-c", str(folder / "pytest.ini"), "-p", "no:django"], folder
    )


def run(part: Part) -> Part:
    run_lanes([[part]])
    run_failed_again([part])
    return part


def test_what_passes_alone_is_named(tmp_path: Path) -> None:
    part = run(part_of(tmp_path, FLAKY))
    assert part.status == 0
    assert "flaky" in table([part])
    assert [name.rpartition("::")[2] for name in part.flaky] == ["test_fails_the_first_time"]


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    part = run(part_of(tmp_path, BROKEN))
    assert part.status == 1
    assert [name.rpartition("::")[2] for name in part.failed()] == ["test_always_fails"]
    assert [name.rpartition("::")[2] for name in part.flaky] == ["test_fails_the_first_time"]


@pytest.mark.parametrize("source", ["def test_passes():\n    pass\n", "raise SystemExit(3)\n"], ids=["passed", "ended"])
def test_otherwise_it_is_run_once(tmp_path: Path, source: str) -> None:
    part = part_of(tmp_path, source)
    run_lanes([[part]])
    before = part.status
    run_failed_again([part])
    assert (part.status, part.flaky) == (before, ())
    assert "flaky" not in table([part])


def test_only_what_runs_elsewhere_is_left_out() -> None:
    everywhere = ["sqlite", "mariadb", "postgres", "mysql"]
    left_out = [database for database in everywhere if is_covered(database, "pages", everywhere)]
    assert left_out == ["mysql"]
    assert not is_covered("mysql", "pages", ["sqlite", "mysql"])
    assert not is_covered("mysql", "engine", everywhere)


def test_what_does_not_depend_on_the_database_runs_on_the_first_one() -> None:
    """Given several databases; then one of them, the first, has the tests that do not depend on the database."""
    for databases in (["sqlite", "mariadb", "postgres"], ["mariadb", "postgres"], ["postgres"]):
        assert [name for name in databases if not is_covered(name, "once", databases)] == databases[:1]


def test_the_commands_run_where_they_have_tests() -> None:
    everywhere = ["sqlite", "mariadb", "postgres", "mysql"]
    assert [name for name in everywhere if not is_covered(name, "commands", everywhere)] == ["sqlite", "mariadb"]


def runs(options: Sequence[str], file: str) -> bool:
    """Return whether pytest, given these options, runs this file."""

    def has(paths: Iterable[str]) -> bool:
        return any(file == path or file.startswith(f"{path}/") for path in paths)

    ignored = [option.removeprefix("--ignore=") for option in options if option.startswith("--ignore=")]
    return has(option for option in options if not option.startswith("-")) and not has(ignored)


def test_each_file_of_tests_is_in_one_part() -> None:
    parts = {**{name: options_of(name) for name in PARTS}, "alone": [*ALONE]}
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    found = {file: [name for name, options in parts.items() if runs(options, file)] for file in files}
    assert len(files) > 300
    assert {file: names for file, names in found.items() if len(names) != 1} == {}


def test_the_lane_with_the_most_to_come_is_next_and_no_more_run_than_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def started(part: Part) -> "subprocess.Popen[bytes]":
        order.append(f"{part.database} {part.name}")
        return start_command(["true"], {}, pass_on=signal.SIGINT)

    monkeypatch.setattr(run_suite, "SECONDS", {"leases": 170, "store": 110, "all else": 60})
    monkeypatch.setattr(Part, "start", started)
    monkeypatch.setattr(Part, "show", lambda part: None)
    names = ("all else", "leases", "store")
    run_lanes([[Part(on, name, [], tmp_path) for on in ("sqlite", "mariadb")] for name in names], at_once=1)
    assert order == [
        "sqlite leases", "sqlite store", "mariadb leases", "sqlite all else", "mariadb store", "mariadb all else",
    ]  # fmt: skip
