"""The project of the benchmarks with Django's admin."""

from harness.benchmarks.settings import *  # noqa: F403
from harness.benchmarks.settings import INSTALLED_APPS as APPS

DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "testproject.urls"
STATIC_URL = "/static/"
INSTALLED_APPS = [
    *APPS,
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "testproject.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
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
