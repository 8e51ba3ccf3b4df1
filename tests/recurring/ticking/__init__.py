"""Recurring tasks in real executors: an app of handlers with triggers, and tests that kill, stop and starve them."""
