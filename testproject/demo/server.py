"""A web server for the shop: the one of ``runserver``, on a free port.

It ends in an orderly way on SIGTERM.
"""

import signal
from threading import Thread
from types import FrameType

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler

from testproject.wsgi import application


class Server(ThreadedWSGIServer):
    """Lets the requests that it has begun end before it does."""

    daemon_threads = False


class QuietHandler(WSGIRequestHandler):
    """Writes down only what went wrong."""

    def log_message(self, format: str, *args: object) -> None:
        if not args or str(args[1]) >= "500":
            super().log_message(format, *args)


def main() -> None:
    server = Server(("127.0.0.1", 0), QuietHandler)
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
