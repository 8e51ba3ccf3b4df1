"""The options of ``starttask`` for probes and metrics, and what answers them."""

import json
import os
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.process.pages import ask
from django_delayed_tasks.executor.process.probes import SOCKET, Format, Probes, ProbeTarget, Status
from django_delayed_tasks.executor.process.supervisor import HEALTHY_AFTER, Child, Supervisor


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options to the parser of ``starttask``."""
    parser.add_argument("--health-port", type=int, help="answer /livez and /readyz on this port")
    parser.add_argument("--metrics-port", type=int, help="answer /metrics on this port, for Prometheus")
    parser.add_argument("--listen", default="127.0.0.1", help="address of the ports (default 127.0.0.1)")


def probes_of(given: dict[str, Any]) -> Probes:
    """Return the probes that the options ask for.

    Raises:
        CommandError: an option is invalid.
    """
    last = 65_535
    for name in ("health_port", "metrics_port"):
        port = given[name]
        if port is not None and not 1 <= port <= last:
            text = _("--%(option)s=%(value)s: must be from 1 to %(most)s")
            raise CommandError(text % {"option": name.replace("_", "-"), "value": port, "most": last})
    form = None if given["metrics_port"] is None else _prometheus(given["database"] or settings.DATABASE)
    return Probes(given["health_port"], given["metrics_port"], form, given["listen"])


def _prometheus(alias: str) -> Format:
    try:
        from django_delayed_tasks.metrics.pages import Prometheus
    except ImportError as error:
        text = _("--metrics-port needs prometheus-client (%s): pip install 'django-delayed-tasks[metrics]'")
        raise CommandError(text % error) from None
    meter.start()
    return Prometheus(alias)


def answering(probes: Probes, executor: ProbeTarget) -> AbstractContextManager[None]:
    """Return the context in which an executor answers its probes, or its supervisor's."""
    socket = os.environ.pop(SOCKET, None)  # not for processes that handlers start
    return probes.answered(executor, Path(socket) if socket else None)


@contextmanager
def answering_for(probes: Probes, supervisor: Supervisor) -> Iterator[None]:
    """Answer the probes for all executors of a supervisor within a ``with`` block."""
    if not probes:
        yield
        return
    with TemporaryDirectory(prefix="starttask-") as folder:
        for child in supervisor.children:
            child.variables[SOCKET] = str(socket_of(Path(folder), child))
        with probes.answered(Fleet(supervisor, Path(folder))):
            yield


class Fleet:
    """The executors of one supervisor, as they are probed: each answers on a Unix socket in a folder of its own."""

    def __init__(self, supervisor: Supervisor, sockets: Path) -> None:
        self._supervisor = supervisor
        self._sockets = sockets

    def status(self) -> Status:
        """Return their status: ready if one of them is, and live unless one should have answered and did not.

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
