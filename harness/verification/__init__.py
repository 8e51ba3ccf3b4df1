"""The model of claims and their ends, and what has spin check it. ``python -m harness.verification``; see README.md."""
