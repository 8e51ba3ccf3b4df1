"""A project with the admin, whose database is the file that DDT_PICTURES names."""

import os

from harness.benchmarks.pages_settings import *  # noqa: F403
from harness.benchmarks.pages_settings import MIDDLEWARE as USUAL

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DDT_PICTURES", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
    }
}
INSTALLED_APPS = [
    "django_delayed_tasks",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [*USUAL, "django.middleware.locale.LocaleMiddleware"]
ROOT_URLCONF = "harness.pictures.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TIME_ZONE = "UTC"
