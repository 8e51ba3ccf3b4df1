"""The verbs of callers: add, reschedule, cancel, pause, edit, find and declare tasks."""
