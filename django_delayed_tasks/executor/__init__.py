"""Claims due tasks and runs them. Start reading in ``runner.py``: one task, from its handler to its settlement."""
