import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "for this example only"
INSTALLED_APPS = ["django_delayed_tasks", "nodes"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "db.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL", "timeout": 20},
    }
}
DELAYED_TASKS = {"LEASE": 5, "HEARTBEAT": 1}  # seconds; short, so that the demonstration is

FILES = BASE_DIR / "files"
NODE = os.environ.get("NODE", "")
SECONDS_PER_FILE = float(os.environ.get("SECONDS_PER_FILE", "0.05"))
