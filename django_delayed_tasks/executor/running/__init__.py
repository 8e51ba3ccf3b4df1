"""Runs tasks: whether a run may start, what it returned, which settlement follows, and the threads that do it all.

START READING in ``run.py``.
"""
