"""On SQLite a notice is a datagram to each socket in a folder beside the database file."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections

from django_delayed_tasks.store.notices import CannotListen, Notice, channels, sqlite
from django_delayed_tasks.store.notices.sqlite import Subscription, can_notify, notify

pytestmark = pytest.mark.django_db(transaction=True)
__test__ = connection.vendor == "sqlite"

KILLED = "4711-0123abcd"
"""The name of a socket, as a listener that was killed leaves it."""


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
        killed.bind(str(folder / KILLED))
    if by == "the next notice":
        notify("default", "mail")
        assert list(folder.iterdir()) == []
    else:
        with closing(Subscription("default", "a")) as subscription:
            notify("default", "mail")
            assert subscription.receive() == [Notice("mail", is_own=True)]
            assert not (folder / KILLED).exists()


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

    def leave_meanwhile(path: str, opened: int) -> Iterator[socket.socket]:
        for close in leave:
            close()
            assert not folder.exists()
            return
        yield from look(path, opened)

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
    real = os.open
    removed: list[str] = []

    def open_folder(path: str, *args: Any, **named: Any) -> int:
        if not removed and path == str(folder):
            removed.append(path)
            os.rmdir(path)
        return real(path, *args, **named)

    monkeypatch.setattr(os, "open", open_folder)
    with closing(Subscription("default", "a")) as subscription:
        notify("default", "mail")
        assert subscription.receive() == [Notice("mail", is_own=True)]
    assert removed == [str(folder)]


def test_a_folder_that_is_removed_meanwhile_silences_no_sender(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.listdir

    def listdir(path: int) -> list[str]:
        os.rmdir(folder)
        return real(path)

    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listdir)
        channels.notify("default", "mail")
    assert not folder.exists()
    with closing(Subscription("default", "a")) as subscription:
        channels.notify("default", "mail")
        assert subscription.receive() == [Notice("mail", is_own=True)]


def everything_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder with files of all kinds, and the socket of another program."""
    victim = tmp_path / "victim"
    victim.mkdir()
    for name in ("precious.txt", KILLED, "9-abcdef01"):
        (victim / name).write_text(name)
    (victim / "9-abcdef01").chmod(0o400)
    return victim


def notify_and_listen() -> None:
    channels._silent_until.clear()
    channels.notify("default", "mail")
    with closing(Subscription("default", "a")):
        notify("default", "mail")
    channels._silent_until.clear()


@pytest.mark.parametrize("where", ["absolute", "relative", "dangling"])
def test_a_symlink_is_not_followed(folder: Path, victim: Path, where: str) -> None:
    target = {"absolute": victim, "relative": Path(victim.name), "dangling": victim / "none"}[where]
    folder.symlink_to(target)
    before, mode = everything_in(victim), victim.stat().st_mode
    with pytest.raises(CannotListen):
        notify_and_listen()
    with pytest.raises(OSError, match="Not a directory"):
        notify("default", "mail")
    assert everything_in(victim) == before
    assert not (victim / "none").exists()
    assert victim.stat().st_mode == mode
    assert folder.is_symlink()


def test_files_in_the_folder_stay(folder: Path, victim: Path) -> None:
    before = everything_in(victim)
    victim.rename(folder)
    notify_and_listen()
    assert everything_in(folder) == before


def test_a_symlink_in_the_folder_is_neither_followed_nor_removed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (folder / KILLED).symlink_to(tmp_path / "journal")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        journal.setblocking(False)
        notify_and_listen()
        with pytest.raises(BlockingIOError):
            journal.recv(100)
    assert (folder / KILLED).is_symlink()


def test_sockets_of_other_programs_stay(folder: Path) -> None:
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(folder / "other.sock"))
    notify_and_listen()
    assert (folder / "other.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
class TestOtherUsers:
    STRANGER, FRIEND = 64_001, 64_002

    def test_the_folder_of_a_stranger_is_refused(self, folder: Path) -> None:
        folder.mkdir()
        os.chown(folder, self.STRANGER, -1)
        with pytest.raises(CannotListen, match="belongs to another user"):
            notify_and_listen()
        with pytest.raises(PermissionError, match="belongs to another user"):
            notify("default", "mail")
        assert folder.exists()

    @pytest.mark.parametrize("whose", ["the database", "the folder with the database"])
    def test_the_folder_of_the_databases_owner_is_used(self, database: Path, folder: Path, whose: str) -> None:
        folder.mkdir()
        for path in (folder, database if whose == "the database" else database.parent):
            os.chown(path, self.FRIEND, -1)
        with closing(Subscription("default", "a")) as subscription:
            notify("default", "mail")
            assert subscription.receive() == [Notice("mail", is_own=True)]

    def test_sockets_that_killed_processes_of_others_have_left_stay(self, folder: Path) -> None:
        folder.mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
            killed.bind(str(folder / KILLED))
        os.chown(folder / KILLED, self.STRANGER, -1)
        notify_and_listen()
        assert (folder / KILLED).exists()


def test_nothing_is_ever_open_to_more_than_it_is_for(
    database: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the umask: folder and socket are looked at each time before their modes are changed."""
    database.chmod(0o640)
    database.parent.chmod(0o750)
    seen: list[int] = []

    def looked_at(change: Callable[..., None]) -> Callable[..., None]:
        def changed(*args: Any, **named: Any) -> None:
            seen.append(stat.S_IMODE(folder.stat().st_mode) & ~0o750)
            seen.extend(stat.S_IMODE(path.lstat().st_mode) & ~0o640 for path in folder.iterdir())
            change(*args, **named)

        return changed

    monkeypatch.setattr(os, "fchmod", looked_at(os.fchmod))
    monkeypatch.setattr(os, "chmod", looked_at(os.chmod))
    umask = os.umask(0)
    try:
        with closing(Subscription("default", "a")):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    finally:
        os.umask(umask)
    assert set(seen) == {0}
    assert len(seen) >= 4  # the folder each time, and the socket


def test_the_umask_takes_nothing_from_those_who_may_write(database: Path, folder: Path) -> None:
    database.chmod(0o666)
    database.parent.chmod(0o777)
    umask = os.umask(0o077)
    try:
        with closing(Subscription("default", "a")):
            [path] = folder.iterdir()
            assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, path)] == [0o777, 0o666]
    finally:
        os.umask(umask)
