"""A project with one handler that does nothing. BENCH_DATABASE says which of the held servers is used."""

import os

from tests.database_urls import parse

DATABASE = os.environ["BENCH_DATABASE"]
DATABASES = {"default": parse(os.environ[f"DATABASE_URL_{DATABASE.upper()}"])}
INSTALLED_APPS = ["django_delayed_tasks"]
TASK_HANDLERS = ["benchmarks.handlers.Nothing"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SECRET_KEY = "only for benchmarks"
