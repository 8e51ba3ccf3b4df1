"""Notices sent after a commit: to executors in this process and, through the database, to those in other processes."""
