"""Who starts an executor: the command's process, its supervisor, or a thread of the caller's process."""
