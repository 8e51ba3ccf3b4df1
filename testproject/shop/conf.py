"""The shop's own settings."""

from datetime import timedelta

from django.conf import settings


def reminder_every() -> timedelta:
    """``SHOP_REMINDER_EVERY``: the time between two reminders to pay; a minute unless it is set."""
    return getattr(settings, "SHOP_REMINDER_EVERY", timedelta(minutes=1))


def time_zone() -> str:
    """``SHOP_TIME_ZONE``: where the shop is; Europe/Berlin unless it is set."""
    return getattr(settings, "SHOP_TIME_ZONE", "Europe/Berlin")


def report_times() -> str:
    """``SHOP_REPORT_TIMES``: when the sales are summed up, as a cron expression; at 03:00 unless it is set."""
    return getattr(settings, "SHOP_REPORT_TIMES", "0 3 * * *")
