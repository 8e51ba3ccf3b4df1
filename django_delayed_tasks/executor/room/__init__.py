"""The room of an executor for more claims: what it has, what has taken it, and who waits for some."""
