"""Fixtures of this folder."""

from tests.admin.conftest import boss
from tests.leases.coroutines import make
from tests.processes.conftest import _known_codes, folder, start
from tests.store.fixtures import frozen

__all__ = ["_known_codes", "boss", "folder", "frozen", "make", "start"]
