"""A project with a few handlers. BENCH_DATABASE says which of the servers is used; SQLite is a file of its own."""

import os
import tempfile
from pathlib import Path

from harness.database_urls import parse

DATABASE = os.environ.get("BENCH_DATABASE", "sqlite")
FOLDER = Path(os.environ.get("BENCH_FOLDER", tempfile.gettempdir()))
if DATABASE == "sqlite":
    ENTRY = parse(f"sqlite:///{FOLDER / 'delayed-tasks-bench.sqlite3'}")
    ENTRY["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"  # as durable as the others
else:
    ENTRY = parse(os.environ[f"DATABASE_URL_{DATABASE.upper()}"])
DATABASES = {"default": ENTRY}
if "BENCH_OTHER" in os.environ:  # another node of the same database
    DATABASES["other"] = parse(os.environ["BENCH_OTHER"])
INSTALLED_APPS = ["django_delayed_tasks", "harness.benchmarks.effects"]
HANDLERS = ("Nothing", "Unrecorded", "Briefly", "Working", "Together", "Inserting")
TASK_HANDLERS = [f"harness.benchmarks.handlers.{name}" for name in HANDLERS]
TASKS = {"default": {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend"}}
DELAYED_TASKS = {"FUNCTION_MODULES": ["harness.benchmarks.functions"]}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SECRET_KEY = "only for benchmarks"
