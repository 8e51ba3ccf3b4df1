"""Starts executors: in the process of the command, as processes under a supervisor, or in the caller's process."""
