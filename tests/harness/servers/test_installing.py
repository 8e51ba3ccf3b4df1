"""Packages that the test environment installs where they are missing."""

from pathlib import Path

import pytest

from harness.servers import packages

# As root finds it: prints what it is asked, and whether another process has the lock.
APT_GET = """#!/bin/sh
echo "$@"
echo "$2" >> {folder}/asked
flock --nonblock {folder} true || echo alone >> {folder}/asked
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of what apt-get was asked to do, on a machine where it may be asked."""
    program = tmp_path / "apt-get"
    program.write_text(APT_GET.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(packages, "DPKG", tmp_path)
    monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")
    return tmp_path / "asked"


def test_nothing_is_said_where_programs_read(asked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The torture's runners, and the servers, speak to programs on stdout; a fresh machine must not be another one."""
    packages.install(["hourglass"], "Sand")
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == "Installing hourglass for Sand ...\n"


def test_one_at_a_time(asked: Path) -> None:
    packages.install(["hourglass"], "Sand")
    assert asked.read_text().split() == ["update", "alone", "install", "alone"]
