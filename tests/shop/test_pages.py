"""The pages, as a browser sees them."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from django_delayed_tasks import Task
from testproject.shop import codes, services
from testproject.shop.models import Order, Product, Promotion
from tests.shop.helpers import HOUR, fresh, place_order, scheduled, start_promotion

ORDER = {"customer": "Ada", "email": "ada@example.org", "quantity": "3", "amount": "5", "unit": "minutes"}


def url(name: str, *args: int) -> str:
    return reverse(f"shop:{name}", args=args)


def test_products_show_their_promotion(client: Client, product: Product) -> None:
    assert "£40.00" in client.get(url("products")).text
    start_promotion(product, timedelta(minutes=10))

    page = client.get(url("products")).text

    assert "<del>£40.00</del> £30.00" in page
    assert "in 9 min" in page


def test_an_empty_shop_says_how_to_fill_it(client: Client, db: None) -> None:
    assert "stock_shop" in client.get(url("products")).text


def test_the_number_of_queries_does_not_grow_with_the_rows(
    client: Client, product: Product, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(8):
        other = Product.objects.create(name=f"Product {number}", price=number + 1)
        services.end_promotion(start_promotion(other).pk)
        start_promotion(other)
        place_order(other)

    for name, queries in {"products": 3, "promotions": 2, "orders": 3, "tasks": 3}.items():
        with django_assert_num_queries(queries):
            client.get(url(name))


def test_a_promotion_is_started_with_a_duration(client: Client, product: Product) -> None:
    before = timezone.now()

    answer = client.post(url("start-promotion", product.pk), {"percent": 20, "amount": 90, "unit": "seconds"})

    promotion = Promotion.objects.get()
    assert answer.headers["Location"] == url("promotion", promotion.pk)
    assert before <= promotion.ends_at - timedelta(seconds=90) <= timezone.now()
    assert scheduled(promotion.pk) == {codes.END_PROMOTION: promotion.ends_at}


def test_a_promotion_is_started_with_an_end(client: Client, product: Product) -> None:
    ends_at = timezone.now() + HOUR

    client.post(url("start-promotion", product.pk), {"percent": 20, "unit": "days", "ends_at": ends_at.isoformat()})

    assert Promotion.objects.get().ends_at == ends_at


def test_a_promotion_is_moved_and_ended(client: Client, product: Product) -> None:
    promotion = start_promotion(product)

    client.post(url("move-promotion", promotion.pk), {"amount": 3, "unit": "hours"})
    assert fresh(promotion).ends_at > promotion.ends_at + HOUR
    assert scheduled(promotion.pk) == {codes.END_PROMOTION: fresh(promotion).ends_at}

    client.post(url("end-promotion", promotion.pk))
    assert not fresh(promotion).is_running
    assert scheduled(promotion.pk) == {}
    assert "ended" in client.get(url("promotion", promotion.pk)).text


def test_an_order_is_placed_and_paid(client: Client, product: Product) -> None:
    client.post(url("place-order", product.pk), ORDER)
    order = Order.objects.get()
    assert "awaiting payment" in client.get(url("order", order.pk)).text
    assert set(scheduled(order.pk)) == {codes.CANCEL_UNPAID_ORDER, codes.REMINDER}

    answer = client.post(url("pay-order", order.pk), follow=True)

    assert "The order is paid." in answer.text
    assert fresh(order).state == Order.State.PAID
    assert scheduled(order.pk) == {}


def test_an_order_is_cancelled_by_the_customer(client: Client, product: Product) -> None:
    order = place_order(product)

    client.post(url("cancel-order", order.pk))

    assert fresh(order).state == Order.State.CANCELLED
    assert scheduled(order.pk) == {}


@pytest.mark.parametrize(
    ("page", "data", "error"),
    [
        ("start-promotion", {"percent": 20, "unit": "days", "ends_at": "2001-01-01T00:00"}, "This moment is past."),
        ("start-promotion", {"percent": 95, "amount": 1, "unit": "days"}, "less than or equal to 90"),
        ("start-promotion", {}, "This field is required."),
        ("place-order", {**ORDER, "email": "nobody"}, "valid email address"),
        ("place-order", {**ORDER, "quantity": "10000000000000000000000"}, "less than or equal to 100"),
    ],
)
def test_a_wrong_form_is_shown_again(
    client: Client, product: Product, page: str, data: dict[str, Any], error: str
) -> None:
    answer = client.post(url(page, product.pk), data)

    assert answer.status_code == 422
    assert error in answer.text
    assert not Promotion.objects.exists()
    assert not Order.objects.exists()
    assert not Task.objects.exists()


def test_a_wrong_move_is_shown_again(client: Client, product: Product) -> None:
    promotion = start_promotion(product)

    answer = client.post(url("move-promotion", promotion.pk), {"unit": "days", "ends_at": "soon"})

    assert answer.status_code == 422
    assert "Enter a valid date/time." in answer.text
    assert scheduled(promotion.pk) == {codes.END_PROMOTION: promotion.ends_at}


def test_what_comes_too_late_is_refused(client: Client, product: Product) -> None:
    promotion = services.end_promotion(start_promotion(product).pk)
    order = services.cancel_order(place_order(product).pk)
    start_promotion(product)
    later = {"amount": 1, "unit": "days"}

    for address, data, error in (
        (url("start-promotion", product.pk), {**later, "percent": 5}, "is running already"),
        (url("move-promotion", promotion.pk), later, "has ended already"),
        (url("end-promotion", promotion.pk), {}, "has ended already"),
        (url("pay-order", order.pk), {}, "is cancelled already"),
        (url("cancel-order", order.pk), {}, "is cancelled already"),
    ):
        answer = client.post(address, data)
        assert answer.status_code == 409
        assert error in answer.text


@pytest.mark.parametrize("name", ["move-promotion", "end-promotion", "pay-order", "cancel-order"])
def test_changes_need_post(client: Client, name: str) -> None:
    assert client.get(url(name, 1)).status_code == 405


@pytest.mark.parametrize("number", [0, 999, 10**30])
@pytest.mark.parametrize("name", ["start-promotion", "promotion", "place-order", "order"])
def test_what_is_not_there_is_not_found(client: Client, db: None, name: str, number: int) -> None:
    assert client.get(url(name, number)).status_code == 404


CHANGES = ["start-promotion", "move-promotion", "end-promotion", "place-order", "pay-order", "cancel-order"]


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_not_there_cannot_be_changed(client: Client, db: None, name: str) -> None:
    assert client.post(url(name, 999), {**ORDER, "percent": 20}).status_code == 404


def test_forms_need_their_token(product: Product) -> None:
    strict = Client(enforce_csrf_checks=True)

    assert strict.post(url("place-order", product.pk), ORDER).status_code == 403

    assert not Order.objects.exists()


def test_orders_can_be_narrowed_to_a_state(client: Client, product: Product) -> None:
    open_order, paid = place_order(product), services.pay_order(place_order(product).pk)

    page = client.get(url("orders"), {"state": "paid"}).text

    assert url("order", paid.pk) in page
    assert url("order", open_order.pk) not in page


def test_tasks_show_what_waits_and_what_has_run(client: Client, product: Product) -> None:
    promotion = start_promotion(product)
    order = services.pay_order(place_order(product).pk)

    page = client.get(url("tasks")).text

    waiting, runs = page.split("Last runs")
    assert "Waiting (1)" in waiting
    assert url("promotion", promotion.pk) in waiting
    assert url("order", order.pk) not in waiting
    assert runs.count(url("order", order.pk)) == 2
    assert "cancelled" in runs


def test_tasks_can_be_searched(client: Client, product: Product) -> None:
    start_promotion(product)
    order = place_order(product)

    found = client.get(url("tasks"), {"code": codes.REMINDER, "number": str(order.pk)})
    missing = client.get(url("tasks"), {"code": codes.REMINDER, "number": "no such number"})
    wrong = client.get(url("tasks"), {"code": "other.code"})

    assert "Waiting (1)" in found.text
    assert "Nothing waits." in missing.text
    assert (wrong.status_code, "Select a valid choice" in wrong.text) == (422, True)


def test_what_people_type_is_escaped(client: Client, product: Product) -> None:
    client.post(url("place-order", product.pk), {**ORDER, "customer": "<script>alert(1)</script>"})

    assert "<script>alert" not in client.get(url("orders")).text
