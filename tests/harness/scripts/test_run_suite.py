"""A test that fails is run once more, alone; what passes then is named as flaky."""

from pathlib import Path

import pytest

from harness.scripts.run_suite import Part, is_covered, run_failed_again, run_lanes, table

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
