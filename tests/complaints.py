"""What the system checks complain about."""

from django.core import checks

PREFIX = "django_delayed_tasks."


def found(databases: list[str] | None = None) -> list[checks.CheckMessage]:
    """Our complaints; the databases' too when some are given."""
    tags = ["delayed_tasks", "database"] if databases else ["delayed_tasks"]
    messages = checks.run_checks(tags=tags, databases=databases)
    return [message for message in messages if str(message.id).startswith(PREFIX)]


def numbers(databases: list[str] | None = None) -> list[str]:
    """The ids of all complaints, without the prefix that every one has."""
    return sorted(str(message.id).removeprefix(PREFIX) for message in found(databases))


def the_only(databases: list[str] | None = None) -> checks.CheckMessage:
    (message,) = found(databases)
    return message
