"""The configuration of the app."""

from django.apps import AppConfig


class ImportersConfig(AppConfig):
    """Gives the app a label that no app of the project has."""

    name = "django_delayed_tasks.importers"
    label = "django_delayed_tasks_importers"
