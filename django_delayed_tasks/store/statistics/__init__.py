"""What is summed up for statistics and forecasts: the ends of runs, and a survey of all tasks."""
