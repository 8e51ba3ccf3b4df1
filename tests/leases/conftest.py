"""Fixtures of this folder."""

from tests.admin.conftest import boss
from tests.processes.conftest import _known_codes, folder, start
from tests.store.fixtures import frozen, pytest_itemcollected

__all__ = ["_known_codes", "boss", "folder", "frozen", "pytest_itemcollected", "start"]
