"""What the harness can do to a database. No Django here: settings are made from what is started."""

from abc import ABC, abstractmethod
from collections.abc import Mapping


class Database(ABC):
    """A private database. The thread that starts a server must outlive it: call these in the main thread only.

    Attributes:
        name: as in ``--databases``: the kind, and for another default character set than utf8mb4 "-" and its name.
        kind: as in ``DDT_DATABASE`` and in ``Scenario.databases``.
        vendor: "mysql", "postgres" or "sqlite": the scheme of its URL.
        has_server: whether there is a server with connections over TCP, to be cut and killed.
    """

    name: str
    kind: str
    vendor: str
    has_server: bool

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL by which the driver reaches it."""

    @property
    def urls(self) -> list[str]:
        """The URLs by which executors reach it, in turn (more than one for a cluster)."""
        return [self.url]

    @abstractmethod
    def start(self) -> None:
        """Prepare and start it; ServerError when that fails."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it and remove its data."""

    @abstractmethod
    def begin_outage(self) -> None:
        """Make it unreachable: its server is killed (SIGKILL), or its file locked."""

    @abstractmethod
    def end_outage(self) -> None:
        """Make it reachable again; return when the server takes connections."""

    def kill_backends(self) -> int:
        """End every connection that others have to it, at the server; how many (0 without a server)."""
        return 0

    def environment(self, url: str) -> Mapping[str, str]:
        """Return the environment variables that make a process use this URL."""
        return {"DDT_DATABASE": self.kind, f"DATABASE_URL_{self.kind.upper()}": url}
