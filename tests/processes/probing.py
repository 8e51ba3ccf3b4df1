"""What a probe of the outside gets from a process."""

import json
import socket
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.processes.waiting import wait_until


class Answer(NamedTuple):
    """The status code, 0 if there is no answer, and the body."""

    code: int
    body: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def free_port() -> int:
    """A port that no process has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def get(port: int, path: str) -> Answer:
    """Ask a process of this host."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as response:
            return Answer(response.status, response.read().decode())
    except HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode())
    except URLError:
        return Answer(0)


def wait_for(port: int, path: str, code: int = 200) -> Answer:
    """Ask until the answer has this code."""
    wait_until(lambda: get(port, path).code == code)
    return get(port, path)
