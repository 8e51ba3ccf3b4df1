"""A Django project with one queue: PEER says which, PEER_URL on which database, PEER_OPTIONS its options as JSON."""

import json
import os

from harness.database_urls import parse

APPS = {
    "django-tasks-db": ("django_tasks_db", "django_tasks_db.DatabaseBackend"),
    "django-ox": ("django_ox", "django_ox.backend.OxBackend"),
    "dj-queue": ("dj_queue", "dj_queue.backend.DjQueueBackend"),
}
APP, BACKEND = APPS[os.environ["PEER"]]
ENTRY = parse(os.environ["PEER_URL"])
ENTRY["CONN_MAX_AGE"] = None  # the best for all of them: they would open a connection for each task
if "sqlite" in ENTRY["ENGINE"]:
    ENTRY["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
DATABASES = {"default": ENTRY}
INSTALLED_APPS = [APP]
TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": json.loads(os.environ.get("PEER_OPTIONS", "{}"))}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SECRET_KEY = "only for benchmarks"
