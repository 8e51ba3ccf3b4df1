"""The models of what is leased: resources, of which mutexes are a kind, and the callers that wait for one."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.fields import AnyJSONField, ExactCharField
from django_delayed_tasks.models.lengths import CODE_LENGTH, HOLDER_LENGTH, NAME_LENGTH, POOL_LENGTH
from django_delayed_tasks.support.visible import visible


class Resource(models.Model):
    """A resource that is leased to one holder at a time; a mutex is a resource, too.

    It is free if it is enabled and ``busy_before`` has passed. Nothing has to free it: the lease of a holder that died
    simply expires. A released resource has the moment of its release in ``busy_before``, so the lease index returns
    free resources least recently used first; one that was never used has 1970. ``version`` grows with each acquisition.
    It starts at the milliseconds since 1970, so that it does not go back if the row is deleted and added again.
    """

    id = models.BigAutoField(primary_key=True)
    pool = ExactCharField(_("pool"), max_length=POOL_LENGTH + CODE_LENGTH)
    name = ExactCharField(_("name"), max_length=NAME_LENGTH)
    payload = AnyJSONField(_("payload"), null=True, blank=True)
    state = AnyJSONField(_("state"), null=True, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    busy_before = models.DateTimeField(_("busy until"))
    version = models.BigIntegerField(_("version"))

    holder = ExactCharField(_("holder"), max_length=HOLDER_LENGTH, blank=True, default="")
    host = models.CharField(_("host"), max_length=255, blank=True, default="")
    pid = models.BigIntegerField(_("pid"), null=True)
    acquired_at = models.DateTimeField(_("acquired"), null=True)
    renewed_at = models.DateTimeField(_("renewed"), null=True)
    task_id: Any = models.BigIntegerField(_("task"), null=True)
    task_version = models.BigIntegerField(_("claim"), null=True)

    class Meta:
        verbose_name = _("resource")
        verbose_name_plural = _("resources")
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="ddt_resource_identity")]
        indexes = [models.Index(fields=["pool", "enabled", "busy_before", "id"], name="ddt_resource_lease")]

    def __str__(self) -> str:
        return visible(f"{self.pool} {self.name}")


class Waiter(models.Model):
    """A place in the wait queue for a resource, renewed while its caller waits; waiters are served in id order."""

    id = models.BigAutoField(primary_key=True)
    pool = ExactCharField(_("pool"), max_length=POOL_LENGTH)
    name = ExactCharField(_("name"), max_length=NAME_LENGTH, blank=True, default="")
    expires_at = models.DateTimeField(_("until"))

    class Meta:
        verbose_name = _("waiter")
        verbose_name_plural = _("waiters")
        indexes = [models.Index(fields=["pool", "name", "id"], name="ddt_waiter_queue")]

    def __str__(self) -> str:
        return visible(f"{self.pool} {self.name} {self.pk}")
