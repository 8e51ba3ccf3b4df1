"""What an executor takes: it reads the agenda, claims due tasks, and hands each to its run as a ``ClaimedTask``."""
