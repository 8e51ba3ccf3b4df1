"""Orders: placed, paid, cancelled."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from testproject.shop import services
from testproject.shop.errors import ShopError
from testproject.shop.forms import OrderForm
from testproject.shop.models import Order, Product
from testproject.shop.views import INVALID, REFUSED, page_of, posted


@require_safe
def orders(request: HttpRequest) -> HttpResponse:
    rows = Order.objects.select_related("product").prefetch_related("reminders")
    state = request.GET.get("state", "")
    if state in Order.State.values:
        rows = rows.filter(state=state)
    context = {"page": page_of(request, rows), "states": Order.State.choices, "state": state}
    return render(request, "shop/orders.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def place(request: HttpRequest, pk: int) -> HttpResponse:
    product = get_object_or_404(Product, pk=pk)
    form = OrderForm(posted(request))
    if not form.is_valid():
        status = INVALID if form.is_bound else 200
        return render(request, "shop/place_order.html", {"product": product, "form": form}, status=status)
    order = services.place_order(pk, form.request())
    messages.success(request, "Thank you. The order is placed.")
    return redirect(order)


@require_safe
def order(request: HttpRequest, pk: int) -> HttpResponse:
    return order_page(request, pk)


@require_POST
def pay(request: HttpRequest, pk: int) -> HttpResponse:
    return changed(request, pk, services.pay_through_gateway, "The order is paid.")


@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    return changed(request, pk, services.cancel_order, "The order is cancelled.")


def changed(request: HttpRequest, pk: int, change: Callable[[int], Order], message: str) -> HttpResponse:
    get_object_or_404(Order, pk=pk)
    try:
        order = change(pk)
    except ShopError as error:
        messages.error(request, str(error))
        return order_page(request, pk, REFUSED)
    messages.success(request, message)
    return redirect(order)


def order_page(request: HttpRequest, pk: int, status: int = 200) -> HttpResponse:
    order = get_object_or_404(Order.objects.select_related("product"), pk=pk)
    return render(request, "shop/order.html", {"order": order}, status=status)
