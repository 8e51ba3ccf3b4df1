"""System checks; imported by the app's ``ready()``. Every id is explained in docs/reference/checks.md."""

from django.core.checks import Tags, register

from django_delayed_tasks.checks.configuration import check_databases_configured, check_settings
from django_delayed_tasks.checks.databases import check_databases
from django_delayed_tasks.checks.handlers import check_handlers

TAG = "delayed_tasks"

register(check_settings, TAG)
register(check_databases_configured, TAG)
register(check_handlers, TAG)
# Not under our own tag: Django 6.1 hands all databases to the checks of a tag, and would connect to each.
register(check_databases, Tags.database)
