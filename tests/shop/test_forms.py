"""What the forms accept, and what they say about the rest."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from testproject.shop.forms import MomentForm, OrderForm, StartPromotionForm, TaskSearchForm

ORDER = {"customer": "Ada", "email": "ada@example.org", "quantity": 1, "amount": 5, "unit": "minutes"}


def ahead(**units: float) -> str:
    return (timezone.now() + timedelta(**units)).isoformat()


def problems(form: Any) -> list[str]:
    return [f"{field}: {error}" for field, errors in form.errors.items() for error in errors]


@pytest.mark.parametrize(
    ("unit", "lasts"),
    [
        ("seconds", timedelta(seconds=3)),
        ("minutes", timedelta(minutes=3)),
        ("hours", timedelta(hours=3)),
        ("days", timedelta(days=3)),
    ],
)
def test_a_duration_is_counted_from_now(unit: str, lasts: timedelta) -> None:
    form = MomentForm({"amount": "3", "unit": unit})
    before = timezone.now()

    assert form.is_valid(), problems(form)

    assert before <= form.cleaned_data["ends_at"] - lasts <= timezone.now()


@pytest.mark.parametrize("text", ["2099-07-01T10:00", "2099-07-01T10:00:00.5", "2099-07-01T10:00:00.123456+02:00"])
def test_a_moment_may_have_fractions_and_an_offset(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testproject.shop.forms.MAX_AHEAD", timedelta(days=36_500))
    form = MomentForm({"unit": "minutes", "ends_at": text})

    assert form.is_valid(), problems(form)

    moment = datetime.fromisoformat(text)
    expected = moment if moment.tzinfo else timezone.make_aware(moment)
    assert form.cleaned_data["ends_at"] == expected


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"unit": "minutes"}, "__all__: Give either"),
        ({"unit": "minutes", "amount": "3", "ends_at": ahead(hours=1)}, "__all__: Give either"),
        ({"unit": "minutes", "amount": "0"}, "amount: Ensure"),
        ({"unit": "minutes", "amount": "-5"}, "amount: Ensure"),
        ({"unit": "minutes", "amount": "1e3"}, "amount: Enter a whole number"),
        ({"unit": "minutes", "amount": "9" * 30}, "amount: Ensure"),
        ({"unit": "days", "amount": "367"}, "amount: A year at most"),
        ({"unit": "years", "amount": "1"}, "unit: Select a valid choice"),
        ({"amount": "1"}, "unit: This field is required"),
        ({"unit": "minutes", "ends_at": "soon"}, "ends_at: Enter a valid date"),
        ({"unit": "minutes", "ends_at": "2099-02-30T10:00"}, "ends_at: Enter a valid date"),
        ({"unit": "minutes", "ends_at": ahead(seconds=-1)}, "ends_at: This moment is past"),
        ({"unit": "minutes", "ends_at": ahead(days=367)}, "ends_at: A year ahead at most"),
        ({"unit": "minutes", "ends_at": "9999-12-31T23:59:59"}, "ends_at: A year ahead at most"),
        ({"unit": "minutes", "ends_at": "0001-01-01T00:00"}, "ends_at: This moment is past"),
    ],
)
def test_what_is_no_moment_ahead_is_named(data: dict[str, str], problem: str) -> None:
    form = MomentForm(data)

    assert not form.is_valid()
    assert any(text.startswith(problem) for text in problems(form)), problems(form)


@pytest.mark.parametrize("percent", ["", "0", "91", "-1", "2.5", "many"])
def test_a_percentage_is_within_bounds(percent: str) -> None:
    form = StartPromotionForm({"amount": "3", "unit": "hours", "percent": percent})

    assert list(form.errors) == ["percent"]


def test_an_order_is_understood() -> None:
    form = OrderForm({**ORDER, "flaky": "on"})

    assert form.is_valid(), problems(form)

    request = form.request()
    assert (request.customer, request.quantity, request.flaky) == ("Ada", 1, True)
    assert request.pay_within == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("customer", ""),
        ("customer", "x" * 81),
        ("customer", "a\0b"),
        ("email", "nobody"),
        ("quantity", "0"),
        ("quantity", "101"),
        ("quantity", "some"),
        ("amount", ""),
        ("amount", "0"),
        ("unit", "years"),
    ],
)
def test_a_wrong_field_of_an_order_is_named(field: str, value: str) -> None:
    assert list(OrderForm({**ORDER, field: value}).errors) == [field]


@pytest.mark.parametrize(("field", "value"), [("code", "other.code"), ("number", "x" * 256), ("number", "\0")])
def test_a_wrong_search_is_named(field: str, value: str) -> None:
    assert list(TaskSearchForm({field: value}).errors) == [field]
