"""Helpers for every layer of this library, not for its callers: exact JSON, forks, redaction."""
