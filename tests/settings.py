"""Settings of the tests. The database is that of harness.settings: DDT_DATABASE says which."""

from harness.settings import *  # noqa: F403

DEBUG = False
ALLOWED_HOSTS = ["*"]
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
    "django_delayed_tasks.importers",
    "testproject.shop",
]

if DDT_DIALECT:  # noqa: F405
    INSTALLED_APPS.append("harness.named_dialect.NamedDialect")

_BACKEND = "django_delayed_tasks.backends.tasks.DelayedTasksBackend"
TASKS = {
    "default": {"BACKEND": _BACKEND, "QUEUES": []},
    "strict": {"BACKEND": _BACKEND, "QUEUES": ["default"]},
}

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
