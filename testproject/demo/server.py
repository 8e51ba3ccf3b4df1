"""A web server for the shop: that of ``runserver``, with a fixed number of threads, on a free port.

It ends in an orderly way on SIGTERM.
"""

import signal
from concurrent.futures import ThreadPoolExecutor
from socket import socket
from threading import Thread
from types import FrameType
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer

from testproject.wsgi import application

THREADS = 8


class Server(WSGIServer):
    """Answers in threads that stay, and with them their connections to the database."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), QuietHandler)
        self.threads = ThreadPoolExecutor(THREADS)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.threads.submit(self.answer, request, client_address)

    def answer(self, request: socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except TimeoutError:
            pass  # a browser connected in advance and had nothing to ask
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)

    def server_close(self) -> None:
        """Lets the requests that it has begun end."""
        super().server_close()
        self.threads.shutdown()


class QuietHandler(WSGIRequestHandler):
    """Writes down only what went wrong; waits for a request no longer than ``timeout`` seconds."""

    timeout = 5

    def log_message(self, format: str, *args: object) -> None:
        if not args or str(args[1]) >= "500":
            super().log_message(format, *args)


def main() -> None:
    server = Server()
    server.set_app(StaticFilesHandler(application))

    def stop(number: int, frame: FrameType | None) -> None:
        # shutdown() waits for the loop below, which this very thread runs.
        Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    print(f"Listening on http://127.0.0.1:{server.server_port}")
    server.serve_forever(poll_interval=0.1)
    server.server_close()


if __name__ == "__main__":
    main()
