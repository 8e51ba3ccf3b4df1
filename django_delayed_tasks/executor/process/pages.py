"""A small HTTP server for probes and metrics, on a port or on a Unix socket, in threads of its own."""

import errno
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf
from pathlib import Path
from socket import AF_INET6, AF_UNIX, SHUT_RDWR, SOCK_STREAM, getaddrinfo, socket
from socketserver import BaseServer, ThreadingMixIn, UnixStreamServer
from threading import Event, Thread
from typing import Any, NamedTuple

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

PATIENCE = 5.0
"""Seconds that a client may take to send its request and to read the answer, and a process to answer its supervisor."""
MAX_CONNECTIONS = 16
"""Connections at a time; a further one is closed at once."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class Page(NamedTuple):
    """The response to one request: status, content type and body."""

    code: int
    kind: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
"""By path: what makes the page."""
Address = tuple[str, int] | Path
"""A host and a port, or the path of a Unix socket."""


class PageServer:
    """Serves pages until :meth:`stop`."""

    def __init__(self, address: Address, pages: Pages) -> None:
        """Listen from now on; nothing is answered before :meth:`start`.

        Raises:
            TaskException: the address cannot be had.
        """
        handler = type("Handler", (_Handler,), {"pages": pages})
        try:
            self._server = _server(address, handler)
        except (OSError, OverflowError) as error:
            shown = address if isinstance(address, Path) else f"{address[0]}:{address[1]}"
            raise TaskException(f"cannot listen on {shown}: {error}") from None
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="pages", daemon=True)

    @property
    def port(self) -> int:
        """The port, which the system has chosen if 0 was given."""
        return int(self._server.server_address[1])  # type: ignore[index]

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no further request."""
        self._server.shutdown()
        self._server.server_close()


def _server(address: Address, handler: type[BaseHTTPRequestHandler]) -> BaseServer:
    if isinstance(address, Path):
        _remove_socket(address)
        return _UnixServer(str(address), handler)
    family = getaddrinfo(*address, type=SOCK_STREAM)[0][0]
    return (_IPv6Server if family == AF_INET6 else _Server)(address, handler)


def _remove_socket(path: Path) -> None:
    """Remove the socket of a process that crashed; a file that is no socket stays, and is in the way."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


class _BoundedMixIn(ThreadingMixIn):
    """A bound on connections, in number and in time: any client may open one and send a byte now and then."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self.deadlines: dict[Any, float] = {}
        super().__init__(*args)

    def get_request(self) -> Any:
        try:
            return super().get_request()  # type: ignore[misc]
        except OSError as error:
            if error.errno in _FULL:
                Event().wait(0.1)  # the connection stays in the backlog, which would be looked at again at once
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, unless there are too many."""
        if len(self.deadlines) >= MAX_CONNECTIONS:
            self.shutdown_request(request)
        else:
            self.deadlines[request] = clock.monotonic() + PATIENCE
            super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut off clients that are too slow; called several times a second."""
        now = clock.monotonic()
        for request, deadline in list(self.deadlines.items()):
            if deadline < now:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)  # its thread closes it

    def shutdown_request(self, request: Any) -> None:
        self.deadlines.pop(request, None)
        super().shutdown_request(request)  # type: ignore[misc]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what is not a connection that the client, or we, have ended."""
        if not isinstance(sys.exception(), OSError):
            logger.exception("a request cannot be answered")


class _Server(_BoundedMixIn, HTTPServer):
    pass


class _IPv6Server(_Server):
    address_family = AF_INET6


class _UnixServer(_BoundedMixIn, UnixStreamServer):
    pass


class _Handler(BaseHTTPRequestHandler):
    server: _BoundedMixIn  # type: ignore[assignment]
    pages: Pages = {}
    timeout = PATIENCE

    def version_string(self) -> str:
        """Return the value of the header ``Server``, which names no versions."""
        return "django-delayed-tasks"

    def do_GET(self) -> None:
        self.server.deadlines[self.connection] = inf  # how long the page takes is not up to the client
        page = self._page()
        with suppress(ConnectionError):  # who asked may not have waited for the answer
            self._send(page)

    def _send(self, page: Page) -> None:
        self.send_response(page.code)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page.body)

    do_HEAD = do_GET  # noqa: N815

    def _page(self) -> Page:
        make = self.pages.get(self.path.partition("?")[0])
        if make is None:
            return Page(404, PLAIN, f"There are: {', '.join(self.pages)}\n".encode())
        try:
            return make()
        except Exception as error:
            logger.warning("%s cannot be answered: %s", self.path, error)
            return Page(500, PLAIN, f"{type(error).__name__}\n".encode())
        finally:
            connections.close_all()  # those of this thread, which ends with the answer

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: probes ask every few seconds."""


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket(AF_UNIX, SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def ask(path: Path, page: str) -> tuple[int, bytes]:
    """Return the status code and the body of a page that a process serves on a Unix socket; (0, b"") if it does not."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", page)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()
