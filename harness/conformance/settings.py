"""Settings of the suites; the database is that of harness.settings."""

import os
from importlib import import_module

from harness.conformance.suites import FAMILY, SUITES
from harness.settings import *  # noqa: F403

INSTALLED_APPS = ["django_delayed_tasks"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"none": {"class": "logging.NullHandler"}},
    "loggers": {"django_delayed_tasks": {"handlers": ["none"], "propagate": False}},
}

if (_settings := SUITES[os.environ[FAMILY]].settings) is not None:
    _theirs = import_module(_settings)
    INSTALLED_APPS += _theirs.INSTALLED_APPS
    TEMPLATES, MIDDLEWARE, ROOT_URLCONF = _theirs.TEMPLATES, _theirs.MIDDLEWARE, _theirs.ROOT_URLCONF
    STATIC_URL, ALLOWED_HOSTS = _theirs.STATIC_URL, _theirs.ALLOWED_HOSTS
