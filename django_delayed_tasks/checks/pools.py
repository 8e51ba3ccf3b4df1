"""Checks for pools that handlers name and that have no resources, or none that is enabled."""

from collections import defaultdict
from collections.abc import Iterator

from django.core.checks import CheckMessage, Warning
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.checks.overdue import is_by_an_executor
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.handlers.validation import name_of
from django_delayed_tasks.models import Executor, Resource, Task


def pool_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield W017 for each pool that is empty or disabled, with the handlers whose tasks wait for its resources.

    In a database without tasks nothing waits: that is a new one, such as each run of the tests makes.
    """
    handlers = defaultdict(list)
    for handler in get_task_handlers().values():
        if handler.pool:
            handlers[handler.pool].append(name_of(handler))
    if not handlers or not (is_by_an_executor() or _is_in_use(alias)):
        return
    resources = Resource.objects.using(alias).filter(pool__in=handlers)
    found = set(resources.values_list("pool", "enabled").distinct())
    for pool, names in handlers.items():
        if (pool, True) not in found:
            text = ngettext(
                "%(handler)s needs a resource of the pool %(pool)r, which is empty.",
                "%(handler)s need a resource of the pool %(pool)r, which is empty.",
                len(names),
            )
            hint = _("Its tasks wait until there is one: Pool(%r).add(...). Or is the name misspelled?")
            if (pool, False) in found:
                text = ngettext(
                    "%(handler)s needs a resource of the pool %(pool)r, whose resources are all disabled.",
                    "%(handler)s need a resource of the pool %(pool)r, whose resources are all disabled.",
                    len(names),
                )
                hint = _("Its tasks wait until one is enabled: Pool(%r).enable(...).")
            values = {"handler": ", ".join(names), "pool": pool}
            yield Warning(text % values, hint=hint % pool, id="django_delayed_tasks.W017")


def _is_in_use(alias: str) -> bool:
    return Task.objects.using(alias).exists() or Executor.objects.using(alias).exists()
