"""The shop that the examples of the documentation speak of: its models, which are no part of any installed app."""

from typing import Any, ClassVar

from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    paid = models.BooleanField(default=False)
    cancelled = models.BooleanField(default=False)
    points = models.PositiveIntegerField(default=0)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        app_label = "shown_shop"


class Promotion(models.Model):
    ends_at = models.DateTimeField(null=True)
    active = models.BooleanField(default=True)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        app_label = "shown_shop"


class Parcel(models.Model):
    number = models.CharField(max_length=20, unique=True)
    state = models.CharField(max_length=20)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        app_label = "shown_shop"


ALL: tuple[type[models.Model], ...] = (Order, Promotion, Parcel)
