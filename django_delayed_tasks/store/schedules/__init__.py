"""What callers do with a task's schedule: add, reschedule, cancel, pause, edit, find and declare tasks."""
