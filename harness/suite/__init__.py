"""The suite: which tests and checks run where, side by side. ``parts.py`` is the table, ``steps.py`` runs it."""
