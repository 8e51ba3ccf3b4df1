from django.urls import path

from testproject.shop.views import orders, promotions, tasks

app_name = "shop"

urlpatterns = [
    path("", promotions.products, name="products"),
    path("products/<int:pk>/promotion/", promotions.start, name="start-promotion"),
    path("products/<int:pk>/order/", orders.place, name="place-order"),
    path("promotions/", promotions.promotions, name="promotions"),
    path("promotions/<int:pk>/", promotions.promotion, name="promotion"),
    path("promotions/<int:pk>/move/", promotions.move, name="move-promotion"),
    path("promotions/<int:pk>/end/", promotions.end, name="end-promotion"),
    path("orders/", orders.orders, name="orders"),
    path("orders/<int:pk>/", orders.order, name="order"),
    path("orders/<int:pk>/pay/", orders.pay, name="pay-order"),
    path("orders/<int:pk>/cancel/", orders.cancel, name="cancel-order"),
    path("tasks/", tasks.tasks, name="tasks"),
]
