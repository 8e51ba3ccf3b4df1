"""Checks for pools that handlers name and that have no resources, or none that is enabled."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Warning
from django.utils.translation import gettext as _

from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.handlers.validation import name_of
from django_delayed_tasks.models import Resource


def pool_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield W017 for each handler whose tasks wait because its pool is empty or disabled."""
    handlers = [handler for handler in get_task_handlers().values() if handler.pool]
    if not handlers:
        return
    wanted = {handler.pool for handler in handlers}
    resources = Resource.objects.using(alias).filter(pool__in=wanted)
    found = set(resources.values_list("pool", "enabled").distinct())
    for handler in handlers:
        if (handler.pool, True) not in found:
            text = _("%(handler)s needs a resource of the pool %(pool)r, which is empty.")
            hint = _("Its tasks wait until there is one: Pool(%r).add(...). Or is the name misspelled?")
            if (handler.pool, False) in found:
                text = _("%(handler)s needs a resource of the pool %(pool)r, whose resources are all disabled.")
                hint = _("Its tasks wait until one is enabled: Pool(%r).enable(...).")
            yield Warning(
                text % {"handler": name_of(handler), "pool": handler.pool},
                hint=hint % handler.pool,
                id="django_delayed_tasks.W017",
            )
