"""Notices on SQLite: datagrams to sockets in a folder next to the database file.

All processes that write to the database are on one machine and may write to this folder. SQLite keeps its ``-wal``
and ``-shm`` files there, too.

Other users may be able to make files next to the database, and a process with more rights than theirs must do nothing
for them: the folder is opened without following a symlink, and nothing in it is touched but sockets made here.
"""

import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from django.db import connections

from django_delayed_tasks.store import notices
from django_delayed_tasks.store.notices import CannotListen, Notice

SUFFIX: Final = "-notices"
_NAME: Final = re.compile(r"[0-9]+-[0-9a-f]{8}")


def can_notify(alias: str) -> bool:
    """Return whether the database is a file, on a system that has such sockets."""
    return _folder(alias) is not None


can_listen = can_notify


def _folder(alias: str) -> str | None:
    name = str(connections[alias].settings_dict["NAME"])
    if not hasattr(socket, "AF_UNIX") or not name or name.startswith(("file:", ":memory:")):
        return None
    return os.path.realpath(name) + SUFFIX


def notify(alias: str, queue: str) -> None:
    """Send a notice to all listeners.

    Raises:
        OSError: the folder cannot be read, or is not one of ours.
    """
    path = _folder(alias)
    if path is not None:
        with suppress(FileNotFoundError), _opened(path) as folder:  # there is no folder without a listener
            for listener in _listeners(path, folder):
                with suppress(OSError):  # it has notices enough that it has not heard
                    listener.send(f"{notices.process()} {queue}".encode())


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open the folder, as a descriptor.

    Raises:
        FileNotFoundError: there is none.
        OSError: it is something else, such as a symlink, or belongs to a stranger.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if _is_strangers(path, os.fstat(folder).st_uid):
            raise PermissionError(f"{path!r} belongs to another user")
        yield folder
    finally:
        os.close(folder)


def _is_strangers(path: str, owner: int) -> bool:
    """Return whether the owner of the folder is none who can do as they like with the database anyway."""
    beside = (path.removesuffix(SUFFIX), os.path.dirname(path))
    return owner not in (os.geteuid(), 0) and owner not in [os.stat(one).st_uid for one in beside]


def _listeners(path: str, folder: int) -> Iterator[socket.socket]:
    """Connect to each listener in turn; remove the sockets that killed processes of this user have left."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for name in os.listdir(folder):
            try:
                owner = _owner_of_socket(folder, name)
                if owner is not None:
                    sender.connect(os.path.join(path, name))
                    yield sender
            except ConnectionRefusedError:
                if owner == os.geteuid():
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
            except OSError:
                continue  # it has just been closed, or belongs to a user who does not allow it


def _owner_of_socket(folder: int, name: str) -> int | None:
    """Return who made the socket of a listener; None if this is something else."""
    if not _NAME.fullmatch(name):
        return None
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return found.st_uid if stat.S_ISSOCK(found.st_mode) else None


class Subscription:
    """A socket that receives notices; ``fileno()`` is readable when there is one."""

    is_broadcast = True

    def __init__(self, alias: str, executor: str) -> None:
        """Listen.

        Raises:
            CannotListen: no socket can be made next to the database file.
        """
        self._folder = _folder(alias) or ""
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._listen(stat.S_IMODE(os.stat(connections[alias].settings_dict["NAME"]).st_mode) & 0o777)
        except OSError as error:
            self.close()
            raise CannotListen(f"no socket can be made in {self._folder!r} ({error})") from None

    def _listen(self, mode: int) -> None:
        self._socket.setblocking(False)
        for tries_left in reversed(range(5)):
            try:
                _make_folder(self._folder)
                with _opened(self._folder) as folder:
                    for _ in _listeners(self._folder, folder):
                        pass  # sockets of killed processes are removed
                    self._bind(folder, mode)
                break
            except FileNotFoundError:  # another listener, the last one, has just removed the folder
                if not tries_left:
                    raise

    def _bind(self, folder: int, mode: int) -> None:
        """Bind the socket for all who may write to the database: they may send notices."""
        with suppress(OSError):  # the mode as it is made, where the kernel takes it from the descriptor, as Linux does
            os.fchmod(self._socket.fileno(), mode)
        self._socket.bind(os.path.join(self._folder, self._name))
        with suppress(NotImplementedError):  # an older C library: what the umask forbids stays forbidden
            os.chmod(self._name, mode, dir_fd=folder, follow_symlinks=False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[Notice]:
        """Return the notices that have arrived."""
        notices = []
        with suppress(BlockingIOError):
            while True:
                notices.append(Notice.parsed(self._socket.recv(4096)))  # more bytes than a queue's name
        return notices

    def close(self) -> None:
        """Close the socket, and remove its folder if it was the last there."""
        self._socket.close()
        with suppress(OSError), _opened(self._folder) as folder:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=folder)
            os.rmdir(self._folder)


def _make_folder(path: str) -> None:
    """Make the folder, if there is none, for all users who may make files next to the database."""
    mode = stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    with _opened(path) as folder:
        os.fchmod(folder, mode)  # what the umask has taken away
