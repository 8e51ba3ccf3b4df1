"""Floors: the statements that the work needs, and nothing else. No Django, no retries, no fences: not models."""
