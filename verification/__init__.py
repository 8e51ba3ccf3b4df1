"""The model of claims and their ends, and what has spin check it. ``python -m verification``; see README.md."""
