"""Notices sent after a commit: to executors in this process and, through PostgreSQL, to those in other processes."""
