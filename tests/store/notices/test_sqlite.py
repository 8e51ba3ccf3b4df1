"""On SQLite a notice is a datagram to each socket in a folder beside the database file."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection, connections

from django_delayed_tasks.store.notices import CannotListen, Notice, channels, sqlite
from django_delayed_tasks.store.notices.sqlite import Subscription, can_notify, notify

pytestmark = pytest.mark.django_db(transaction=True)
__test__ = connection.vendor == "sqlite"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that only this test knows."""
    path = tmp_path / "db.sqlite3"
    path.touch()
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", path)
    return path


@pytest.fixture
def folder(database: Path) -> Path:
    return Path(f"{database}{sqlite.SUFFIX}")


def test_all_listeners_hear(database: Path) -> None:
    with closing(Subscription("default", "a")) as one, closing(Subscription("default", "b")) as other:
        notify("default", "mail 🚀")
        assert one.receive() == other.receive() == [Notice("mail 🚀", is_own=True)]
        assert one.receive() == []


def test_the_folder_goes_with_the_last_listener(folder: Path) -> None:
    notify("default", "mail")  # no folder, no error
    with closing(Subscription("default", "a")):
        with closing(Subscription("default", "b")):
            assert len(list(folder.iterdir())) == 2
        assert len(list(folder.iterdir())) == 1
    assert not folder.exists()


@pytest.mark.parametrize("by", ["the next notice", "the next listener"])
def test_sockets_of_killed_processes_are_removed(folder: Path, by: str) -> None:
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(folder / "killed"))
    if by == "the next notice":
        notify("default", "mail")
        assert list(folder.iterdir()) == []
    else:
        with closing(Subscription("default", "a")) as subscription:
            notify("default", "mail")
            assert subscription.receive() == [Notice("mail", is_own=True)]
            assert not (folder / "killed").exists()


def test_a_listener_that_hears_nothing_stops_no_sender(database: Path) -> None:
    with closing(Subscription("default", "a")) as subscription:
        for _ in range(2_000):
            notify("default", "mail")
        assert 0 < len(subscription.receive()) < 2_000


def test_who_may_write_to_the_database_may_send(database: Path, folder: Path) -> None:
    database.chmod(0o660)
    with closing(Subscription("default", "a")):
        [path] = folder.iterdir()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660


def test_the_folder_is_for_those_whom_its_parent_is_for(database: Path, folder: Path) -> None:
    database.parent.chmod(0o3770)
    with closing(Subscription("default", "a")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o3770


def test_the_last_listener_leaves_while_another_comes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It removes the folder that the other has just found."""
    leave = iter([Subscription("default", "a").close])
    look = sqlite._listeners

    def leave_meanwhile(path: str) -> Iterator[socket.socket]:
        for close in leave:
            close()
            assert not folder.exists()
            return
        yield from look(path)

    monkeypatch.setattr(sqlite, "_listeners", leave_meanwhile)
    with closing(Subscription("default", "b")) as subscription:
        notify("default", "mail")
        assert subscription.receive() == [Notice("mail", is_own=True)]


def test_a_path_that_is_too_long_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ("x" * 100) / "db.sqlite3"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", path)
    with pytest.raises(CannotListen, match="AF_UNIX path too long"):
        Subscription("default", "a")


@pytest.mark.parametrize("name", [":memory:", "file:memorydb_default?mode=memory&cache=shared", ""])
def test_a_database_in_memory_has_no_notices(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "NAME", name)
    assert not can_notify("default")
    notify("default", "mail")


def test_the_last_listener_leaves_as_the_folder_is_prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.chmod
    removed: list[str] = []

    def chmod(path: str, mode: int) -> None:
        if not removed:
            removed.append(path)
            os.rmdir(path)
        real(path, mode)

    monkeypatch.setattr(os, "chmod", chmod)
    with closing(Subscription("default", "a")) as subscription:
        notify("default", "mail")
        assert subscription.receive() == [Notice("mail", is_own=True)]
    assert removed == [str(folder)]


def test_a_folder_that_is_removed_meanwhile_silences_no_sender(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.listdir

    def listdir(path: str) -> list[str]:
        os.rmdir(path)
        return real(path)

    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listdir)
        channels.notify("default", "mail")
    assert not folder.exists()
    with closing(Subscription("default", "a")) as subscription:
        channels.notify("default", "mail")
        assert subscription.receive() == [Notice("mail", is_own=True)]
