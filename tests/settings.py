"""Settings of the tests. DDT_DATABASE says which database: sqlite, mariadb, mysql or postgres.

The servers' addresses are in DATABASE_URL_MARIADB and so on, as ``python -m tests.servers`` sets them. The
test database has a name of its own in every process, so that several test runs can share a server.
"""

import atexit
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.database_urls import parse
from tests.servers.folders import HeldFolder

DDT_DATABASE = os.environ.get("DDT_DATABASE", "sqlite")
TEST_NAME = os.environ.get("DDT_TEST_NAME", f"test_ddt_{os.getpid()}")


def sqlite_folder() -> Path:
    """A temporary folder that goes when this process ends (and not when a forked child does)."""
    folder, owner = HeldFolder("ddt-sqlite-", Path(tempfile.gettempdir())), os.getpid()
    atexit.register(lambda: folder.remove() if os.getpid() == owner else None)
    return folder.path


def default_database() -> dict[str, Any]:
    """The entry of DATABASES that the environment asks for."""
    url = os.environ.get(f"DATABASE_URL_{DDT_DATABASE.upper()}")
    if url is not None:
        entry = parse(url)
        entry["TEST"] = {"NAME": TEST_NAME if DDT_DATABASE != "sqlite" else f"{entry['NAME']}.test"}
        return entry
    if DDT_DATABASE != "sqlite":
        raise RuntimeError(
            f"DATABASE_URL_{DDT_DATABASE.upper()} is not set. Run `make test DATABASES={DDT_DATABASE}`, "
            f"or hold servers with `python -m tests.servers --databases {DDT_DATABASE} --hold`."
        )
    # A file, since an in-memory database cannot be shared by threads and processes.
    folder = sqlite_folder()
    return {**parse(f"sqlite:///{folder}/ddt.sqlite3"), "TEST": {"NAME": str(folder / "test.sqlite3")}}


SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
DATABASES = {"default": default_database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "/static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.admin",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_delayed_tasks",
    "testproject.shop",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
