"""Fixtures of this folder."""

from tests.store.fixtures import any_code, frozen, pytest_itemcollected, strategy

__all__ = ["any_code", "frozen", "pytest_itemcollected", "strategy"]
