"""The functions that the rows name."""

from django.tasks import task


@task
def send(*args: object, **kwargs: object) -> None:
    """Do nothing."""
