"""The rows of the shop. Only :mod:`testproject.shop.services` and the warehouse change them."""

from datetime import datetime, timedelta
from decimal import Decimal

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.urls import reverse

MAX_REMINDERS = 3


class Product(models.Model):
    name = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=8, decimal_places=2, validators=[MinValueValidator(Decimal("0.01"))])

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name

    @property
    def promotion(self) -> "Promotion | None":
        """The promotion that is running, if one is; makes use of prefetched promotions."""
        return next((promotion for promotion in self.promotions.all() if promotion.is_running), None)

    @property
    def present_price(self) -> Decimal:
        promotion = self.promotion
        return promotion.price if promotion else self.price


class Promotion(models.Model):
    """A lower price until ``ends_at``. The price returns when the promotion's task has set ``ended_at``."""

    product = models.ForeignKey(Product, models.CASCADE, related_name="promotions")
    percent = models.PositiveSmallIntegerField(validators=[MinValueValidator(1), MaxValueValidator(90)])
    started_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.percent} % off {self.product}"

    def get_absolute_url(self) -> str:
        return reverse("shop:promotion", args=[self.pk])

    @property
    def is_running(self) -> bool:
        return self.ended_at is None

    @property
    def price(self) -> Decimal:
        return (self.product.price * (100 - self.percent) / 100).quantize(Decimal("0.01"))

    @property
    def lateness(self) -> timedelta | None:
        """The delay after its time with which the promotion ended."""
        return self.ended_at - self.ends_at if self.ended_at else None


class Order(models.Model):
    """Something to be paid until ``pay_by``, and cancelled when it is not."""

    class State(models.TextChoices):
        AWAITING_PAYMENT = "awaiting payment"
        PAID = "paid"
        CANCELLED = "cancelled"

    product = models.ForeignKey(Product, models.PROTECT, related_name="orders")
    customer = models.CharField(max_length=80)
    email = models.EmailField()
    quantity = models.PositiveSmallIntegerField(validators=[MinValueValidator(1), MaxValueValidator(100)])
    total = models.DecimalField(max_digits=10, decimal_places=2)
    state = models.CharField(max_length=20, choices=State, default=State.AWAITING_PAYMENT)
    placed_at = models.DateTimeField()
    pay_by = models.DateTimeField()
    paid_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    flaky = models.BooleanField(default=False, help_text="The warehouse fails twice before it helps.")
    warehouse_failures = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"order {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("shop:order", args=[self.pk])

    @property
    def is_open(self) -> bool:
        return self.state == Order.State.AWAITING_PAYMENT

    @property
    def closed_at(self) -> datetime | None:
        """The time at which the order was paid or cancelled."""
        return self.paid_at or self.cancelled_at


class Reminder(models.Model):
    """A reminder to pay that was sent. (A real shop would have sent a letter, too.)"""

    order = models.ForeignKey(Order, models.CASCADE, related_name="reminders")
    number = models.PositiveSmallIntegerField()
    sent_at = models.DateTimeField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["order", "number"], name="shop_reminder_once")]

    def __str__(self) -> str:
        return f"reminder {self.number} for {self.order}"
