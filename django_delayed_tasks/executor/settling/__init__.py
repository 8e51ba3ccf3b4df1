"""Writes how runs end: their settlements, reports of final failures, and progress. Start with ``settler.py``."""
