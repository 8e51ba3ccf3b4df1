"""The parts of ``manage.py tasks``: its arguments, which tasks they select, what its verbs do, and what it writes."""
