"""What people may type in."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from testproject.shop import codes
from testproject.shop.services.orders import OrderRequest

MAX_AHEAD = timedelta(days=366)
UNITS = {"seconds": "seconds", "minutes": "minutes", "hours": "hours", "days": "days"}


class ShopForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})


class DurationForm(ShopForm):
    """An amount and its unit; :meth:`duration` is None when it was left empty."""

    amount = forms.IntegerField(min_value=1, max_value=100_000)
    unit = forms.ChoiceField(choices=UNITS.items(), initial="minutes")

    def duration(self) -> timedelta | None:
        amount, unit = self.cleaned_data.get("amount"), self.cleaned_data.get("unit")
        if not amount or not unit:
            return None
        duration = timedelta(**{unit: amount})
        if duration > MAX_AHEAD:
            self.add_error("amount", "A year at most.")
        return duration


class MomentForm(DurationForm):
    """A moment ahead: given itself, or as a duration from now. Cleaned, it is ``cleaned_data["ends_at"]``."""

    field_order = ["percent", "amount", "unit", "ends_at"]

    ends_at = forms.DateTimeField(
        label="Or ends at (UTC)",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["amount"].required = False
        self.fields["amount"].label = "Ends in"

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        names = ("amount", "ends_at")
        if sum(name in self.errors or cleaned.get(name) is not None for name in names) != 1:
            raise forms.ValidationError("Give either a duration or a moment.")
        if not self.errors:
            cleaned["ends_at"] = self.ahead(cleaned["ends_at"])
        return cleaned

    def ahead(self, moment: datetime | None) -> datetime | None:
        now = timezone.now()
        if moment is None:
            duration = self.duration()
            return None if self.errors or duration is None else now + duration
        if moment <= now:
            self.add_error("ends_at", "This moment is past.")
        elif moment > now + MAX_AHEAD:
            self.add_error("ends_at", "A year ahead at most.")
        return moment


class StartPromotionForm(MomentForm):
    percent = forms.IntegerField(label="Per cent off", min_value=1, max_value=90, initial=20)


class OrderForm(DurationForm):
    field_order = ["customer", "email", "quantity", "amount", "unit", "flaky"]

    customer = forms.CharField(label="Your name", max_length=80)
    email = forms.EmailField(label="E-mail")
    quantity = forms.IntegerField(min_value=1, max_value=100, initial=1)
    flaky = forms.BooleanField(
        label="The warehouse fails twice",
        help_text="before it takes the goods of an unpaid order back",
        required=False,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["amount"].label = "Will be paid within"
        self.fields["amount"].initial = 5

    def clean(self) -> dict[str, Any]:
        self.cleaned_data["pay_within"] = self.duration()
        return self.cleaned_data

    def request(self) -> OrderRequest:
        names = ("customer", "email", "quantity", "pay_within", "flaky")
        return OrderRequest(**{name: self.cleaned_data[name] for name in names})


class TaskSearchForm(ShopForm):
    code = forms.ChoiceField(choices=[("", "all"), *((code, code) for code in codes.ALL)], required=False)
    number = forms.CharField(label="Number contains", max_length=255, required=False)
