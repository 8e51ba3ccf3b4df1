"""Records kept in addition to schedules: history, what was done once, progress, statistics, a survey of all tasks."""
