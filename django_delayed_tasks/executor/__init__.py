"""Claims due tasks and runs them.

Start reading in ``running/runner.py``: one task, from its handler to its settlement.
"""
