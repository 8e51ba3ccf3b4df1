"""Configuration of gunicorn: what it tells the application of."""

from tests.processes.web import child_exit, on_exit, post_worker_init

__all__ = ["child_exit", "on_exit", "post_worker_init"]
