"""Probes of an executor's process over HTTP, for what restarts it or counts on it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from django_delayed_tasks import clock
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.meter import Activity
from django_delayed_tasks.executor.process.pages import JSON, Page, PageServer

SOCKET = "DJANGO_DELAYED_TASKS_PROBES"
"""The environment variable with the Unix socket on which a process answers its supervisor."""


class Status(NamedTuple):
    """The health of a process.

    Attributes:
        is_live: False if only a restart helps.
        is_ready: whether it claims and runs tasks.
        details: what else to say, as JSON.
    """

    is_live: bool
    is_ready: bool
    details: dict[str, Any]

    def as_json(self) -> str:
        """Return it as one line."""
        return json.dumps({"live": self.is_live, "ready": self.is_ready, **self.details})


class ProbeTarget(Protocol):
    """The interface of what is probed: an executor, or a supervisor for all of its executors."""

    def status(self) -> Status:
        """Return its status."""

    def metrics(self, format: "Format") -> bytes:
        """Return its metrics."""


class Format(Protocol):
    """The interface of what makes text of metrics."""

    kind: str

    def of_executor(self, activity: Activity) -> bytes:
        """Return the page of one executor."""

    def merged(self, pages: Mapping[str, bytes]) -> bytes:
        """Return one page for all executors of a supervisor, whose pages come by their names."""

    def with_cluster(self, page: bytes) -> bytes:
        """Return the page, with the metrics of the whole cluster."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The ports that were asked for; ``listen`` is the address of this host that has them.

    ``format`` makes the text of metrics.
    """

    health_port: int | None = None
    metrics_port: int | None = None
    format: Format | None = None
    listen: str = "127.0.0.1"

    def __bool__(self) -> bool:
        return (self.health_port, self.metrics_port) != (None, None)

    @contextmanager
    def answered(self, probed: ProbeTarget, supervisor_socket: Path | None = None) -> Iterator[None]:
        """Answer probes within a ``with`` block: those of the supervisor, or those that were asked for.

        Raises:
            TaskException: a port is taken.
        """
        with ExitStack() as stack:
            for server in self._servers(probed, supervisor_socket):
                stack.callback(server.stop)
                server.start()
            yield

    def _servers(self, probed: ProbeTarget, supervisor_socket: Path | None) -> list[PageServer]:
        health = health_pages(probed)
        if supervisor_socket:
            return [PageServer(supervisor_socket, {**health, **self._metrics_pages(probed, is_whole=False)})]
        by_port: dict[int, dict[str, Callable[[], Page]]] = {}
        if self.health_port is not None:
            by_port[self.health_port] = health
        if self.metrics_port is not None:
            pages = by_port.setdefault(self.metrics_port, {})
            by_port[self.metrics_port] = pages | self._metrics_pages(probed, is_whole=True)
        return [PageServer((self.listen, port), pages) for port, pages in by_port.items()]

    def _metrics_pages(self, probed: ProbeTarget, is_whole: bool) -> dict[str, Callable[[], Page]]:
        """Return the page of metrics, if they were asked for; a whole one has those of the cluster, too."""
        form = self.format
        if form is None:
            return {}

        def page() -> Page:
            text = probed.metrics(form)
            return Page(200, form.kind, form.with_cluster(text) if is_whole else text)

        return {"/metrics": page}


def health_pages(probed: ProbeTarget) -> dict[str, Any]:
    """Return the pages for probes of liveness and readiness: 200 for yes, 503 for no."""

    def page(is_good: bool, status: Status) -> Page:
        return Page(200 if is_good else 503, JSON, f"{status.as_json()}\n".encode())

    def live() -> Page:
        return page((status := probed.status()).is_live, status)

    def ready() -> Page:
        return page((status := probed.status()).is_ready, status)

    return {"/livez": live, "/readyz": ready}


class ProbedExecutor:
    """One executor, as it is probed."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def status(self) -> Status:
        """Return its status: not live when it must be restarted, and ready while it may claim tasks."""
        executor = self._executor
        details = {"name": executor.options.name, "executor": executor.lease.executor}
        is_live = executor.health.is_live
        may_claim = clock.monotonic() < executor.lease.claims_until and not executor.capacity.is_unconnected
        return Status(is_live, is_live and may_claim, details)

    def metrics(self, format: Format) -> bytes:
        """Return its metrics."""
        return format.of_executor(self._executor.activity())
