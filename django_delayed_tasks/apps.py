"""The app's configuration."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DelayedTasksConfig(AppConfig):
    """Loads the handlers and registers the system checks when Django starts."""

    name = "django_delayed_tasks"
    verbose_name = _("Delayed tasks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_delayed_tasks import api, checks, handlers  # noqa: F401 (api installs add_task for the handlers)

        handlers.load()
