"""What an executor takes: the agenda, claims of due tasks, the claimed task."""
