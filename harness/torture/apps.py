"""The ledger's app; in an executor it also puts in what the harness needs there."""

from django.apps import AppConfig


class TortureConfig(AppConfig):
    name = "harness.torture"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from harness.torture import bugs, hooks

        bugs.install()
        hooks.install()
