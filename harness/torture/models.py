"""The ledger: what was accepted, and what handlers did. No migrations: ``migrate --run-syncdb`` makes the tables."""

from typing import ClassVar

from django.db import models

from harness.torture.texts import EscapedField


class Accepted(models.Model):
    """One API call of the driver, written in the call's own transaction: what is not here was not accepted.

    ``sequence`` numbers the driver's calls and makes a call whose COMMIT's answer was lost repeatable; every call up to
    ``after`` had been answered before this one was made. ``mode`` is what an add said of a task that exists, or "once".
    ``version`` and ``when`` are the row's (or the deferred schedule's) after the call, read in the same transaction,
    under its lock. Ids of one identity ascend in the order in which the calls took effect.
    """

    sequence = models.BigIntegerField(unique=True)
    verb = models.CharField(max_length=20)  # add, cancel, reschedule
    biz_code = EscapedField(max_length=200)
    biz_num = EscapedField(max_length=300)
    mode = models.CharField(max_length=20)
    after = models.BigIntegerField()
    # add: created, replaced, deferred, kept, exists, filtered; cancel: cancelled, stopping, missing;
    # reschedule: moved, after_run (of a run that has not ended), missing
    result = models.CharField(max_length=20)
    task_id = models.BigIntegerField(null=True)
    version = models.BigIntegerField(null=True)
    when = models.DateTimeField(null=True, db_column="when_time")
    nonce = models.BigIntegerField(null=True)  # of the schedule's data; a reschedule keeps the data and has none
    at = models.DateTimeField()  # by the database's clock

    objects: ClassVar["models.Manager[Accepted]"] = models.Manager()

    class Meta:
        app_label = "torture"  # the test run, which lists the scenarios, does not install this app
        indexes = [models.Index(fields=["biz_code", "biz_num"], name="torture_accepted_identity")]


class Effect(models.Model):
    """One thing that a handler did, or saw of its claim.

    ``kind``: "begin" and "end" are observations of a run, "effect" is its effect (of which an atomic handler has
    exactly one for each settlement). ``text`` is that of its data. ``held``: whether the claim was the row's at
    that moment.
    """

    kind = models.CharField(max_length=20)
    task_id = models.BigIntegerField()
    version = models.BigIntegerField()
    biz_code = EscapedField(max_length=200)
    biz_num = EscapedField(max_length=300)
    text = EscapedField(max_length=300)
    when = models.DateTimeField(db_column="when_time")
    nonce = models.BigIntegerField()
    executor = models.BigIntegerField()
    process = models.BigIntegerField()
    held = models.BooleanField()
    at = models.DateTimeField()  # by the database's clock

    objects: ClassVar["models.Manager[Effect]"] = models.Manager()

    class Meta:
        app_label = "torture"  # the test run, which lists the scenarios, does not install this app
        indexes = [models.Index(fields=["task_id", "version"], name="torture_effect_claim")]


class Beat(models.Model):
    """One row that is changed all the time: whether the cluster takes writes."""

    number = models.BigIntegerField(default=0)

    objects: ClassVar["models.Manager[Beat]"] = models.Manager()

    class Meta:
        app_label = "torture"  # the test run, which lists the scenarios, does not install this app
