"""Products and their promotions."""

from django.contrib import messages
from django.db.models import F, Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from testproject.shop import services
from testproject.shop.errors import ShopError
from testproject.shop.forms import MomentForm, StartPromotionForm
from testproject.shop.models import Product, Promotion
from testproject.shop.views import INVALID, REFUSED, page_of, posted


@require_safe
def products(request: HttpRequest) -> HttpResponse:
    running = Prefetch("promotions", Promotion.objects.filter(ended_at=None))
    page = page_of(request, Product.objects.prefetch_related(running), 12)
    return render(request, "shop/products.html", {"page": page})


@require_safe
def promotions(request: HttpRequest) -> HttpResponse:
    """The running ones first, then those that ended last."""
    order = (F("ended_at").desc(nulls_first=True), "ends_at", "id")
    page = page_of(request, Promotion.objects.select_related("product").order_by(*order))
    return render(request, "shop/promotions.html", {"page": page})


@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest, pk: int) -> HttpResponse:
    product = get_object_or_404(Product, pk=pk)
    form = StartPromotionForm(posted(request))
    if not form.is_valid():
        return start_page(request, product, form, INVALID if form.is_bound else 200)
    try:
        promotion = services.start_promotion(pk, form.cleaned_data["percent"], form.cleaned_data["ends_at"])
    except ShopError as error:
        form.add_error(None, str(error))
        return start_page(request, product, form, REFUSED)
    messages.success(request, "The promotion runs.")
    return redirect(promotion)


def start_page(request: HttpRequest, product: Product, form: StartPromotionForm, status: int) -> HttpResponse:
    return render(request, "shop/start_promotion.html", {"product": product, "form": form}, status=status)


@require_safe
def promotion(request: HttpRequest, pk: int) -> HttpResponse:
    return promotion_page(request, pk, MomentForm())


@require_POST
def move(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Promotion, pk=pk)
    form = MomentForm(request.POST)
    if not form.is_valid():
        return promotion_page(request, pk, form, INVALID)
    try:
        promotion = services.move_promotion_end(pk, form.cleaned_data["ends_at"])
    except ShopError as error:
        form.add_error(None, str(error))
        return promotion_page(request, pk, form, REFUSED)
    messages.success(request, "The promotion ends at another time now.")
    return redirect(promotion)


@require_POST
def end(request: HttpRequest, pk: int) -> HttpResponse:
    get_object_or_404(Promotion, pk=pk)
    try:
        promotion = services.end_promotion(pk)
    except ShopError as error:
        messages.error(request, str(error))
        return promotion_page(request, pk, MomentForm(), REFUSED)
    messages.success(request, "The promotion has ended.")
    return redirect(promotion)


def promotion_page(request: HttpRequest, pk: int, form: MomentForm, status: int = 200) -> HttpResponse:
    promotion = get_object_or_404(Promotion.objects.select_related("product"), pk=pk)
    return render(request, "shop/promotion.html", {"promotion": promotion, "form": form}, status=status)
