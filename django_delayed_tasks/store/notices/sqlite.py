"""Notices on SQLite: datagrams to sockets in a folder next to the database file.

All processes that write to the database are on one machine and may write to this folder. SQLite keeps its ``-wal``
and ``-shm`` files there, too.
"""

import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from django.db import connections

from django_delayed_tasks.store import notices
from django_delayed_tasks.store.notices import CannotListen, Notice

SUFFIX: Final = "-notices"


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
        OSError: the folder cannot be read.
    """
    folder = _folder(alias)
    if folder is not None:
        with suppress(FileNotFoundError):  # there is no folder without a listener
            for listener in _listeners(folder):
                with suppress(OSError):  # it has notices enough that it has not heard
                    listener.send(f"{notices.process()} {queue}".encode())


def _listeners(folder: str) -> Iterator[socket.socket]:
    """Connect to each listener in turn; remove the sockets of processes that were killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            try:
                sender.connect(path)
            except ConnectionRefusedError:
                with suppress(OSError):
                    os.unlink(path)
            except OSError:
                continue  # it has just been closed, or belongs to a user who does not allow it
            else:
                yield sender


class Subscription:
    """A socket that receives notices; ``fileno()`` is readable when there is one."""

    is_broadcast = True

    def __init__(self, alias: str, executor: str) -> None:
        """Listen.

        Raises:
            CannotListen: no socket can be made next to the database file.
        """
        self._folder = _folder(alias) or ""
        self._path = os.path.join(self._folder, f"{os.getpid()}-{secrets.token_hex(4)}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._bind(connections[alias].settings_dict["NAME"])
        except OSError as error:
            self.close()
            raise CannotListen(f"no socket can be made in {self._folder!r} ({error})") from None

    def _bind(self, database: str) -> None:
        mode = os.stat(database).st_mode & 0o777
        self._socket.setblocking(False)
        for tries_left in reversed(range(5)):
            try:
                self._make_folder()
                for _ in _listeners(self._folder):
                    pass  # sockets of killed processes are removed
                self._socket.bind(self._path)
                break
            except FileNotFoundError:  # another listener, the last one, has just removed the folder
                if not tries_left:
                    raise
        os.chmod(self._path, mode)  # a process that may write to the database may send notices

    def _make_folder(self) -> None:
        """Make the folder for all users who may make files next to the database."""
        with suppress(FileExistsError):
            os.mkdir(self._folder)
            os.chmod(self._folder, stat.S_IMODE(os.stat(os.path.dirname(self._folder)).st_mode))

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
        with suppress(OSError):
            os.unlink(self._path)
        with suppress(OSError):
            os.rmdir(self._folder)
