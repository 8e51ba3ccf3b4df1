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
        from django_delayed_tasks.store.notices import wakeup

        wakeup.run_inline = _run_inline
        handlers.load()


def _run_inline(alias: str) -> None:
    from django_delayed_tasks.testing.running import run_inline  # with modules of executors, which few processes need

    run_inline(alias)
