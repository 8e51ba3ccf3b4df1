"""Functions that entries of beat name, for an interpreter that has Celery."""

from django.tasks import task


@task
def report(*args: str, **kwargs: bool) -> None:
    """Never called here."""


def plain() -> None:
    """Not a task."""
