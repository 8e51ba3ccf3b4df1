"""Fixtures of this folder."""

from tests.store.fixtures import any_code

__all__ = ["any_code"]
