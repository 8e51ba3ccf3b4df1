"""Fixtures of this folder."""

from tests.store.fixtures import any_code, frozen, rows_sent, strategy

__all__ = ["any_code", "frozen", "rows_sent", "strategy"]
