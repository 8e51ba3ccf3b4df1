"""Checks for pools that handlers name and that have no resources."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Warning

from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.handlers.validation import name_of
from django_delayed_tasks.models import Resource


def pool_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield W017 for each handler whose tasks wait because its pool is empty."""
    handlers = [handler for handler in get_task_handlers().values() if handler.pool]
    if not handlers:
        return
    wanted = {handler.pool for handler in handlers}
    filled = set(Resource.objects.using(alias).filter(pool__in=wanted).values_list("pool", flat=True).distinct())
    for handler in handlers:
        if handler.pool not in filled:
            yield Warning(
                f"{name_of(handler)} needs a resource of the pool {handler.pool!r}, which is empty.",
                hint=f"Its tasks wait until there is one: Pool({handler.pool!r}).add(...). Or is the name misspelled?",
                id="django_delayed_tasks.W017",
            )
