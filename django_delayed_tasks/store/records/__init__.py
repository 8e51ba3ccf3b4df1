"""Rows that are kept beside a task: its history, what was done once, its progress."""
