"""What callers say of a task: add, reschedule, cancel, pause, edit, find, declare."""
