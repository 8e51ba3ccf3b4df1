"""Settings of the child processes: as small an installation as a project can have."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

INSTALLED_APPS = ["django_delayed_tasks"]
ROOT_URLCONF = ""
MIDDLEWARE = []
NAMES = ("Quick", "Held", "Single", "Pooled", "Chain", "Hanging", "Deadly")
TASK_HANDLERS = ["tests.processes.handlers." + name for name in NAMES]
TASK_HANDLERS += json.loads(os.environ.get("DDT_MORE_HANDLERS", "[]"))
DELAYED_TASKS = json.loads(os.environ.get("DDT_DELAYED_TASKS", "{}"))

# SQLite as a new project has it: no transaction mode, no journal mode and no time-out are set.
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = json.loads(os.environ.get("DDT_SQLITE_OPTIONS", "{}"))

DATABASES["default"]["OPTIONS"] |= json.loads(os.environ.get("DDT_OPTIONS", "{}"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"django.utils.autoreload": {"handlers": ["stderr"], "level": "INFO"}},
}
