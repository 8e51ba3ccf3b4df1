"""Settings of the shop: for development and for the demonstration, not for the internet."""

import os
from datetime import timedelta
from pathlib import Path

from testproject.databases import database

BASE_DIR = Path(__file__).resolve().parent

SECRET_KEY = "for-development-only-not-a-secret"
DEBUG = os.environ.get("DEBUG", "1") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django_delayed_tasks",  # before the admin, whose index then has the banner
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "testproject.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
            ],
        },
    },
]

ROOT_URLCONF = "testproject.urls"
WSGI_APPLICATION = "testproject.wsgi.application"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"

DATABASES = {"default": database(os.environ.get("DATABASE_URL") or f"sqlite:///{BASE_DIR / 'db.sqlite3'}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
STATIC_URL = "static/"

TASK_HANDLERS = [
    "testproject.shop.task_handlers.EndPromotion",
    "testproject.shop.task_handlers.CancelUnpaidOrder",
    "testproject.shop.task_handlers.RemindCustomer",
    "testproject.shop.nightly.NightlyReport",
]

DELAYED_TASKS = {
    "THREADS": 4,
    "KEEP_HISTORY": timedelta(days=1),
}

SHOP_REMINDER_EVERY = timedelta(seconds=float(os.environ.get("SHOP_REMINDER_SECONDS", "60")))
SHOP_TIME_ZONE = "Europe/Berlin"
SHOP_REPORT_TIMES = os.environ.get("SHOP_REPORT_TIMES", "0 3 * * *")
