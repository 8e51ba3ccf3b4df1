"""Downloads: tried again a few times, kept in the cache, and said to be not to be had."""

from pathlib import Path

import pytest

from harness.servers import downloads, packages
from harness.servers.downloads import CannotBeHad, download, made_once

FAILS = """#!/bin/sh
ls {target} >> {folder}/seen
touch {target}/half
echo "$@" >> {folder}/tried
echo Digging ...
test $(wc -l < {folder}/tried) -gt {failures} && exit
echo no shovel >&2
exit 1
"""


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PAUSES", (0.0, 0.0))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder into which something is downloaded."""
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def fails(times: int, folder: Path) -> str:
    """The path of a program that fails so many times, and notes that it was called."""
    program = folder / "program"
    program.write_text(FAILS.format(folder=folder, target=folder / "target", failures=times))
    program.chmod(0o755)
    return str(program)


def tried(folder: Path) -> int:
    return len((folder / "tried").read_text().splitlines())


def test_what_fails_is_tried_again_in_an_empty_folder(
    tmp_path: Path, target: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    download([fails(2, tmp_path)], what_for="Sand", timeout=60, into=target)
    assert tried(tmp_path) == 3
    assert (tmp_path / "seen").read_text() == ""
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("Sand cannot be had here: ") == 2


def test_all_commands_belong_to_a_try(tmp_path: Path, target: Path) -> None:
    """What "apt-get update" could not read, "apt-get install" misses."""
    download(["sh", "-c", f"echo >> {tmp_path}/first"], [fails(1, tmp_path)], what_for="Sand", timeout=60, into=target)
    assert (tmp_path / "first").read_text() == "\n\n"


def test_what_always_fails_cannot_be_had(tmp_path: Path, target: Path) -> None:
    program = fails(9, tmp_path)
    with pytest.raises(CannotBeHad) as raised:
        download([program, "--now"], what_for="Sand", timeout=60)
    assert str(raised.value) == f"Sand cannot be had here: no shovel\n{program} --now failed:\nDigging ...\nno shovel"
    assert tried(tmp_path) == 3


def test_what_hangs_is_not_tried_again(tmp_path: Path) -> None:
    (tmp_path / "tried").touch()
    command = ["sh", "-c", f"echo >> {tmp_path}/tried; exec sleep 60"]
    with pytest.raises(CannotBeHad, match=r"^Sand cannot be had here: .* timed out"):
        download(command, what_for="Sand", timeout=0.5)
    assert tried(tmp_path) <= 1  # a busy machine may not come to it


def test_where_nothing_may_be_installed_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "can_install", lambda: False)
    monkeypatch.setattr(packages, "download", None)
    with pytest.raises(CannotBeHad, match=r"^Sand was not found and cannot be installed here"):
        packages.install(["hourglass"], "Sand")


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "grain").touch()

    folder = tmp_path / "cache" / "sand"
    assert made_once(folder, make) == made_once(folder, lambda folder: pytest.fail("made twice")) == folder
    assert [path.name for path in folder.iterdir()] == ["grain"]


def test_a_folder_that_could_not_be_made_is_not_there(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "grain").touch()
        raise CannotBeHad("no sand")

    with pytest.raises(CannotBeHad):
        made_once(tmp_path / "sand", make)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
