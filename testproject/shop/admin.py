"""The shop's rows. What has a task behind it is changed on the shop's pages, so that its task moves along."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from testproject.shop.models import Order, Product, Promotion, Reminder

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
else:
    ModelAdmin, TabularInline = admin.ModelAdmin, admin.TabularInline


class ReadOnly:
    """Rows to look at."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Product)
class ProductAdmin(ModelAdmin):
    list_display = ["name", "price"]
    search_fields = ["name"]


@admin.register(Promotion)
class PromotionAdmin(ReadOnly, ModelAdmin):
    list_display = ["id", "product", "percent", "started_at", "ends_at", "ended_at"]
    list_filter = [("ended_at", admin.EmptyFieldListFilter)]
    list_select_related = ["product"]
    search_fields = ["product__name"]


class ReminderInline(ReadOnly, TabularInline):
    model = Reminder


@admin.register(Order)
class OrderAdmin(ReadOnly, ModelAdmin):
    list_display = ["id", "product", "customer", "quantity", "total", "state", "placed_at", "pay_by", "flaky"]
    list_filter = ["state", "flaky"]
    list_select_related = ["product"]
    search_fields = ["customer", "email"]
    inlines = [ReminderInline]
