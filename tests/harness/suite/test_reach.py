"""What is not reached on a database is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.suite import reach
from harness.suite.steps import Step

SOURCE = """
def asks(connection):
    if connection.vendor == "mysql":
        return 1
    return (
        2 if connection.vendor == "sqlite" else 3
    )

def is_left_out(connection):
    return connection.vendor
"""
DIALECT = """
def now():
    return "NOW()"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a dialect that some databases have, and a module that asks for the vendor."""
    package = tmp_path / "package"
    dialects = package / reach.BY_DATABASE[0]
    dialects.mkdir(parents=True)
    (package / "asking.py").write_text(SOURCE)
    (dialects / "mysql.py").write_text(DIALECT)
    (dialects / "sqlite.py").write_text(DIALECT)
    monkeypatch.setattr(reach, "PACKAGE", package)
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    return package


def test_what_is_not_reached_is_named(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys
from types import SimpleNamespace
sys.path[:0] = {[str(package), str(package / reach.BY_DATABASE[0])]}
import asking, sqlite
asking.asks(SimpleNamespace(vendor="sqlite"))
""")
    step = reach.measured(Step("tests", [sys.executable, str(program)], "sqlite"), tmp_path)
    subprocess.run(step.command, check=True, env=step.environment)
    assert not reach.report(tmp_path, ["sqlite"])
    assert capsys.readouterr().out.splitlines() == [
        "What differs by database is reached on sqlite, except:",
        "  package/asking.py: 10",
        "  package/store/sql/dialects/sqlite.py: 3",
    ]


def test_a_dialect_is_for_its_databases(package: Path) -> None:
    def wanted_on(database: str) -> list[str]:
        return sorted(path.name for path in reach.wanted(database))

    assert wanted_on("sqlite") == ["asking.py", "sqlite.py"]
    assert wanted_on("mariadb") == wanted_on("mysql") == ["asking.py", "mysql.py"]
    assert wanted_on("postgres") == ["asking.py"]
