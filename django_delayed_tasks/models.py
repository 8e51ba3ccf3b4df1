"""The rows. What may happen to them is in ``store``; nothing here writes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models
from django.db.models.expressions import Combinable
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.fields import AnyJSONField, ExactCharField, TriggerField
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.triggers import LONGEST_TEXT

EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""Moments that all databases know."""
CODE_LENGTH = 50
NUM_LENGTH = 100
QUEUE_LENGTH = 50
NAME_LENGTH = 150
NOTE_LENGTH = 200
POOL_LENGTH = 50
"""What people may name one; those of limits have a code behind a prefix."""
HOLDER_LENGTH = 64
TRIGGER_LENGTH = LONGEST_TEXT


class Task(models.Model):
    """A live row: something still to be done, or being done, or failed and waiting for a person.

    ``when`` is the business value and never rewritten by the machinery; ``claim_at`` is when the row may next be
    claimed.
    The columns ``deferred_*`` hold a schedule that arrived while the task ran; it takes effect when the run ends.
    The columns ``progress_*`` hold what the present run last reported.
    """

    id = models.BigAutoField(primary_key=True)
    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH)
    biz_num = ExactCharField(_("number"), max_length=NUM_LENGTH)
    # An unsaved task may be given an offset from now, or None for at once: add_task makes a moment of it.
    when: "models.DateTimeField[datetime | timedelta | str | Combinable | None, datetime]" = models.DateTimeField(
        _("when"), db_column="when_time"
    )
    biz_ext = AnyJSONField(_("data"), null=True, blank=True)
    queue = ExactCharField(_("queue"), max_length=QUEUE_LENGTH)
    priority = models.SmallIntegerField(_("priority"))

    trigger = TriggerField(
        _("trigger"), db_column="trigger_text", max_length=TRIGGER_LENGTH, null=True, blank=True, default=None
    )
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    once = models.BooleanField(_("once"), null=True, editable=False)
    by_handler = models.BooleanField(_("by its handler"), null=True, editable=False)
    pause_requested = models.BooleanField(_("pause requested"), null=True, editable=False)

    status = models.SmallIntegerField(_("status"), choices=TaskStatus, default=TaskStatus.PENDING, editable=False)
    claim_at = models.DateTimeField(_("claimable from"), editable=False)
    version = models.BigIntegerField(_("version"), default=0, editable=False)
    attempts = models.IntegerField(_("attempts"), default=0, editable=False)
    rescues = models.IntegerField(_("rescues"), default=0, editable=False)
    # New rows have 0: one that grew with its claim, as NULL does, would split its page (docs/decisions/0011).
    executor = models.BigIntegerField(_("executor"), null=True, default=0, editable=False)
    last_error = models.TextField(_("last error"), blank=True, default="", editable=False)

    deferred_when = models.DateTimeField(_("deferred until"), null=True, editable=False)
    deferred_biz_ext = AnyJSONField(null=True, editable=False)
    deferred_queue = ExactCharField(max_length=QUEUE_LENGTH, default="", editable=False)
    deferred_priority = models.SmallIntegerField(null=True, editable=False)
    deferred_trigger_text = models.CharField(max_length=TRIGGER_LENGTH, null=True, editable=False)
    deferred_expires_at = models.DateTimeField(null=True, editable=False)
    deferred_once = models.BooleanField(null=True, editable=False)
    # The schedule says nothing of the data: the next run gets what this one leaves.
    deferred_keeps_ext = models.BooleanField(null=True, editable=False)
    cancel_requested_at = models.DateTimeField(_("cancel requested"), null=True, editable=False)

    progress_fraction = models.FloatField(_("progress"), null=True, editable=False)
    progress_note = models.CharField(_("progress note"), max_length=NOTE_LENGTH, null=True, editable=False)
    progress_at = models.DateTimeField(_("progress reported"), null=True, editable=False)

    create_time = models.DateTimeField(_("created"), editable=False)
    update_time = models.DateTimeField(_("updated"), editable=False)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        constraints = [
            models.UniqueConstraint(fields=["biz_code", "biz_num"], name="ddt_task_identity"),
            # What Python cannot read would end all claiming: PostgreSQL knows 'infinity', SQLite any text.
            models.CheckConstraint(
                name="ddt_task_moments",
                condition=models.Q(when__range=(EARLIEST, LATEST), claim_at__range=(EARLIEST, LATEST))
                & (models.Q(deferred_when=None) | models.Q(deferred_when__range=(EARLIEST, LATEST))),
            ),
        ]
        indexes = [
            models.Index(fields=["status", "queue", "priority", "claim_at", "id"], name="ddt_task_claim"),
        ]

    @property
    def trigger_text(self) -> str | None:
        """The trigger as it is stored, readable or not."""
        attribute: Any = type(self).trigger
        text: str | None = attribute.text(self)
        return text

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num}"


class TaskRun(models.Model):
    """History: one row per run that ended. Purged from the lowest primary key upwards."""

    id = models.BigAutoField(primary_key=True)
    task_id: Any = models.BigIntegerField(_("task"), db_index=True)
    version = models.BigIntegerField(_("version"))
    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH)
    biz_num = ExactCharField(_("number"), max_length=NUM_LENGTH)
    when = models.DateTimeField(_("when"), db_column="when_time")
    attempt = models.IntegerField(_("attempt"))
    outcome = models.SmallIntegerField(_("outcome"), choices=RunOutcome)
    started = models.DateTimeField(_("started"), null=True)
    finished = models.DateTimeField(_("finished"))
    result = AnyJSONField(_("result"), null=True)
    error = models.TextField(_("error"), blank=True, default="")
    executor = models.BigIntegerField(_("executor"), null=True)

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        indexes = [models.Index(fields=["biz_code", "biz_num"], name="ddt_run_identity")]

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num} #{self.attempt}"


class Success(models.Model):
    """An identity that was added with ``once=True`` and has been done: it is not done again."""

    id = models.BigAutoField(primary_key=True)
    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH)
    biz_num = ExactCharField(_("number"), max_length=NUM_LENGTH)
    succeeded_at = models.DateTimeField(_("succeeded"))

    class Meta:
        verbose_name = _("success")
        verbose_name_plural = _("successes")
        constraints = [models.UniqueConstraint(fields=["biz_code", "biz_num"], name="ddt_success_identity")]

    def __str__(self) -> str:
        return f"{self.biz_code} {self.biz_num}"


class PausedQueue(models.Model):
    """A queue of which nothing is claimed, by any executor, until it is resumed."""

    queue = ExactCharField(_("queue"), max_length=QUEUE_LENGTH, primary_key=True)
    paused_at = models.DateTimeField(_("paused"))

    class Meta:
        verbose_name = _("paused queue")
        verbose_name_plural = _("paused queues")

    def __str__(self) -> str:
        return self.queue


class Recurrence(models.Model):
    """The trigger that the handler of a code declares, as the executor that started last knows it."""

    biz_code = ExactCharField(_("code"), max_length=CODE_LENGTH, primary_key=True)
    trigger_text = models.CharField(_("trigger"), max_length=TRIGGER_LENGTH)
    declared_at = models.DateTimeField(_("declared"))

    class Meta:
        verbose_name = _("recurrence")
        verbose_name_plural = _("recurrences")

    def __str__(self) -> str:
        return f"{self.biz_code}: {self.trigger_text}"


class Executor(models.Model):
    """One OS process that claims and runs tasks; a fresh row per incarnation beside its stable name.

    ``alive`` is True or NULL, never False: NULLs are distinct in a unique constraint, so a name has one live row at
    most.
    """

    id = models.BigAutoField(primary_key=True)
    name = ExactCharField(_("name"), max_length=NAME_LENGTH)
    host = models.CharField(_("host"), max_length=255)
    pid = models.BigIntegerField(_("pid"))
    queues = AnyJSONField(_("queues"), null=True)
    codes = AnyJSONField(_("codes"), default=list)
    threads = models.IntegerField(_("threads"))
    started_at = models.DateTimeField(_("started"))
    heartbeat_at = models.DateTimeField(_("heartbeat"))
    expires_at = models.DateTimeField(_("lease until"))
    alive = models.BooleanField(_("alive"), null=True)

    class Meta:
        verbose_name = _("executor")
        verbose_name_plural = _("executors")
        constraints = [models.UniqueConstraint(fields=["name", "alive"], name="ddt_executor_name_alive")]

    def __str__(self) -> str:
        return f"{self.name} ({self.host}, {self.pid})"


class Resource(models.Model):
    """Something that is leased to one holder at a time; a mutex is one too.

    Free when enabled and ``busy_before`` has passed. Nothing frees it at that moment: a holder that dies is forgotten
    by the clock alone. A released one keeps the moment of its release there, so that the lease index gives free ones
    least recently used first; one that was never used has 1970. ``version`` grows with each acquisition, and is no
    count: it begins at milliseconds since 1970, so that it does not go back if the row is removed and added again.
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
        return f"{self.pool} {self.name}"


class Waiter(models.Model):
    """Somebody who waits for a resource: the lower the id, the sooner it is his turn. Renewed while he waits."""

    id = models.BigAutoField(primary_key=True)
    pool = ExactCharField(_("pool"), max_length=POOL_LENGTH)
    name = ExactCharField(_("name"), max_length=NAME_LENGTH, blank=True, default="")
    expires_at = models.DateTimeField(_("until"))

    class Meta:
        verbose_name = _("waiter")
        verbose_name_plural = _("waiters")
        indexes = [models.Index(fields=["pool", "name", "id"], name="ddt_waiter_queue")]

    def __str__(self) -> str:
        return f"{self.pool} {self.name} {self.pk}"
