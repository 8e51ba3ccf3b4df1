"""Claims: an executor reads the agenda, claims due tasks, and passes each to its run as a ``ClaimedTask``."""
