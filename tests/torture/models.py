"""The ledger: what was accepted, and what handlers did. No migrations: ``migrate --run-syncdb`` makes the tables."""

from typing import ClassVar

from django.db import models


class Accepted(models.Model):
    """One API call of the driver, written in the call's own transaction: what is not here was not accepted.

    ``sequence`` numbers the driver's calls and makes a call whose COMMIT's answer was lost repeatable. ``version`` and
    ``when`` are the row's (or the deferred schedule's) after the call, read in the same transaction, under its lock.
    Ids of one identity ascend in the order in which the calls took effect.
    """

    sequence = models.BigIntegerField(unique=True)
    verb = models.CharField(max_length=20)  # add, cancel, reschedule
    biz_code = models.CharField(max_length=50)
    biz_num = models.CharField(max_length=100)
    # created, replaced, deferred, kept, exists; cancelled, stopping; moved, beside (a run that goes on); missing
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
    exactly one for each settlement). ``held``: whether the claim was the row's at that moment.
    """

    kind = models.CharField(max_length=20)
    task_id = models.BigIntegerField()
    version = models.BigIntegerField()
    biz_code = models.CharField(max_length=50)
    biz_num = models.CharField(max_length=100)
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
