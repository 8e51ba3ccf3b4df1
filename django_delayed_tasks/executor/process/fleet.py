"""The executors of a supervisor, as they are probed: each answers on a Unix socket in a folder of its own."""

import json
from pathlib import Path
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.executor.process.pages import ask
from django_delayed_tasks.executor.process.probes import Format, Status
from django_delayed_tasks.executor.process.supervisor import HEALTHY_AFTER, Child, Supervisor


class Fleet:
    """The executors of one supervisor."""

    def __init__(self, supervisor: Supervisor, sockets: Path) -> None:
        self._supervisor = supervisor
        self._sockets = sockets

    def status(self) -> Status:
        """Return how they are: ready if one of them is, and live unless one should have answered and did not.

        One that ended is started again by the supervisor, and one that was just started may not answer yet.
        """
        executors = [self._look(child) for child in self._supervisor.children]
        is_live = self._supervisor.is_responsive and all(one["live"] for one in executors)
        return Status(is_live, any(one["ready"] for one in executors), {"executors": executors})

    def _look(self, child: Child) -> dict[str, Any]:
        name = self._supervisor.name_of(child)
        code, body = ask(socket_of(self._sockets, child), "/livez")
        if code:
            answer: dict[str, Any] = json.loads(body)
            return answer
        is_young = child.process is None or clock.monotonic() - child.started < HEALTHY_AFTER
        return {"live": is_young, "ready": False, "name": name}

    def metrics(self, format: Format) -> bytes:
        """Return the metrics of all executors that answer."""
        answers = {
            self._supervisor.name_of(child): ask(socket_of(self._sockets, child), "/metrics")
            for child in self._supervisor.children
        }
        return format.merged({name: body for name, (code, body) in answers.items() if code == 200})


def socket_of(folder: Path, child: Child) -> Path:
    """Return the path of the socket on which a child answers."""
    return folder / f"{child.number}.sock"
