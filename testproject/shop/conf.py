"""The shop's own settings."""

from datetime import timedelta

from django.conf import settings


def reminder_every() -> timedelta:
    """``SHOP_REMINDER_EVERY``: the time between two reminders to pay; a minute unless it is set."""
    return getattr(settings, "SHOP_REMINDER_EVERY", timedelta(minutes=1))
