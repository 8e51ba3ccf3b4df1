"""Decides what to claim next and how much of it: the poller and the parts it asks. Start with ``poller.py``."""
