"""Settings of the driver and of the executors. The database is named as in harness.settings, by a URL."""

import json
import os

from harness.settings import *  # noqa: F403
from harness.settings import DATABASES

INSTALLED_APPS = ["django_delayed_tasks", "harness.torture"]
TASK_HANDLERS = json.loads(os.environ.get("DDT_TORTURE_HANDLERS", "null"))
if TASK_HANDLERS is None:
    from harness.torture.codes import COROUTINES, paths_of

    TASK_HANDLERS = paths_of(COROUTINES)

TASKS = {"default": {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend"}}

# History is kept for ever: the invariants are read from it.
DELAYED_TASKS = {"KEEP_HISTORY": None, **json.loads(os.environ.get("DDT_DELAYED_TASKS", "{}"))}

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # Shorter than the lease, or a locked file would cost every executor its claims.
    DATABASES["default"]["OPTIONS"]["timeout"] = float(os.environ.get("DDT_TORTURE_SQLITE_TIMEOUT", "2"))

if os.environ.get("DDT_TORTURE_POOL"):
    DATABASES["default"]["OPTIONS"]["pool"] = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"timed": {"format": "%(asctime)s %(levelname)s %(threadName)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "timed"}},
    "loggers": {
        "django_delayed_tasks": {"handlers": ["stderr"], "level": "INFO"},
        "django.tasks": {"level": "CRITICAL"},  # likewise
        "django_delayed_tasks.run": {"level": "ERROR"},  # retries are what the scenarios are made of
    },
}
