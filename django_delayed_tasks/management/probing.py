"""The options of ``starttask`` for probes and metrics, and what answers them."""

import os
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from django_delayed_tasks.conf import settings
from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.process.fleet import Fleet, socket_of
from django_delayed_tasks.executor.process.probes import SOCKET, Format, Probes, ProbeTarget
from django_delayed_tasks.executor.process.supervisor import Supervisor

MAX_PORT = 65_535
"""The last port of TCP."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options to the parser of ``starttask``."""
    parser.add_argument("--health-port", type=int, help="answer /livez and /readyz on this port")
    parser.add_argument("--metrics-port", type=int, help="answer /metrics on this port, for Prometheus")
    parser.add_argument("--listen", default="127.0.0.1", help="address of the ports (default 127.0.0.1)")


def probes_of(given: dict[str, Any]) -> Probes:
    """Return what the options ask for.

    Raises:
        CommandError: an option is invalid.
    """
    for name in ("health_port", "metrics_port"):
        port = given[name]
        if port is not None and not 1 <= port <= MAX_PORT:
            text = _("--%(option)s=%(value)s: must be from 1 to %(most)s")
            raise CommandError(text % {"option": name.replace("_", "-"), "value": port, "most": MAX_PORT})
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
