"""The HTTP server for probes: slow, many and rude clients do not keep others from an answer."""

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.process import pages
from django_delayed_tasks.executor.process.pages import PLAIN, Page, PageServer, ask
from tests.waiting import wait_until

REQUEST = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
Serve = Callable[..., PageServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server of these pages, and of /livez."""
    started: list[PageServer] = []

    def serve(address: Any = ("127.0.0.1", 0), **more: Callable[[], Page]) -> PageServer:
        made = {f"/{name}": page for name, page in more.items()}
        server = PageServer(address, {"/livez": lambda: Page(200, PLAIN, b"yes"), **made})
        server.start()
        started.append(server)
        return server

    yield serve
    for server in started:
        server.stop()


@pytest.fixture
def connect() -> Iterator[Callable[[PageServer], socket.socket]]:
    """Open a connection that is closed at the end of the test."""
    opened: list[socket.socket] = []

    def connect(server: PageServer) -> socket.socket:
        opened.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def answer(connection: socket.socket, request: bytes = REQUEST) -> bytes:
    connection.sendall(request)
    return b"".join(iter(lambda: connection.recv(65536), b""))


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PATIENCE", 0.3)
    slow = connect(serve())
    slow.settimeout(0.05)
    for _ in range(100):
        try:
            slow.sendall(b"G")
            if slow.recv(1) == b"":
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    pytest.fail("it is still connected")


def test_further_ones_are_closed_until_the_slow_have_been_cut_off(
    serve: Serve, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    slow = [connect(server) for _ in range(pages.MAX_CONNECTIONS)]
    wait_until(lambda: len(server._server.deadlines) == pages.MAX_CONNECTIONS)  # type: ignore[attr-defined]
    assert is_closed(connect(server))
    later = clock.monotonic() + pages.PATIENCE
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    assert all(map(is_closed, slow))
    wait_until(lambda: not server._server.deadlines)  # type: ignore[attr-defined]
    assert answer(connect(server)).startswith(b"HTTP/1.0 200")


def test_pages_that_are_being_made_are_not_cut_off(serve: Serve, connect: Any) -> None:
    may_end, begun = Event(), []

    def slow_page() -> Page:
        begun.append(1)
        may_end.wait(30)
        return Page(200, PLAIN, b"made")

    server = serve(slow=slow_page)
    waiting = [connect(server) for _ in range(pages.MAX_CONNECTIONS)]
    for one in waiting:
        one.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
    wait_until(lambda: len(begun) == pages.MAX_CONNECTIONS)
    assert is_closed(connect(server))
    may_end.set()
    for one in waiting:
        assert b"".join(iter(lambda: one.recv(65536), b"")).endswith(b"made")  # noqa: B023
    wait_until(lambda: answer(connect(server)).endswith(b"yes"))


def test_a_reset_leaves_nothing_in_the_log(
    serve: Serve, connect: Any, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server = serve()
    for request in (b"GET /li", REQUEST, b""):
        rude = connect(server)
        rude.sendall(request)
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        rude.close()
    assert answer(connect(server)).endswith(b"yes")
    wait_until(lambda: not server._server.deadlines)  # type: ignore[attr-defined]
    assert capfd.readouterr().err == ""
    assert caplog.text == ""


def test_what_is_no_fault_of_a_client_is_logged(
    serve: Serve, connect: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages._Handler, "_send", lambda self, page: 1 // 0)
    assert answer(connect(serve())) == b""
    wait_until(lambda: "a request cannot be answered" in caplog.text)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("request_line", [b"GET /livez", b"GET /other", b"POST /livez", b"nonsense"])
def test_no_header_names_a_version(serve: Serve, connect: Any, request_line: bytes) -> None:
    text = answer(connect(serve()), request_line + b" HTTP/1.1\r\n\r\n")
    assert b"Python" not in text
    assert b"BaseHTTP" not in text


def test_many_at_once_are_all_answered(serve: Serve, connect: Any) -> None:
    server = serve()
    for _ in range(20):
        ready = [connect(server) for _ in range(pages.MAX_CONNECTIONS)]
        assert [answer(one)[:12] for one in ready] == [b"HTTP/1.0 200"] * len(ready)


def test_the_backlog_holds_a_burst_of_probes(serve: Serve) -> None:
    server = serve()
    assert server._server.request_queue_size >= 100  # type: ignore[attr-defined]


def test_a_query_does_not_change_the_page(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "s")
    assert ask(tmp_path / "s", "/livez?of=1") == (200, b"yes")


def test_where_no_process_serves_there_is_no_page(tmp_path: Path) -> None:
    assert ask(tmp_path / "socket", "/livez") == (0, b"")


def test_other_pages_are_not_found(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "socket")
    code, body = ask(tmp_path / "socket", "/other")
    assert (code, body) == (404, b"There are: /livez\n")


def test_only_a_socket_makes_room_for_a_unix_socket(serve: Serve, tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("precious")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other"))
    link.symlink_to(tmp_path / "other")
    for path in (precious, link):
        with pytest.raises(TaskException, match="cannot listen on"):
            serve(path)
    assert precious.read_text() == "precious"
    assert link.is_symlink()
    serve(tmp_path / "other")  # of a process that crashed
    assert ask(tmp_path / "other", "/livez")[0] == 200
