"""Records kept in addition to a task's schedule: its history, what was done once, its progress."""
