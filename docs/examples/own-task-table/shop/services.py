from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django_delayed_tasks import Task, add_task, cancel_task

from shop.models import OldTask, Order

CODE = "cancel-unpaid-order"


@transaction.atomic
def place_order(number, wait=timedelta(0)):
    Order.objects.create(number=number)
    add_task(Task(biz_code=CODE, biz_num=number, when=wait, biz_ext={"notify": True}))


@transaction.atomic
def place_order_as_before(number, wait=timedelta(0)):
    Order.objects.create(number=number)
    OldTask.objects.create(biz_code=CODE, biz_num=number, when=timezone.now() + wait, biz_ext='{"notify": true}')


@transaction.atomic
def pay_order(number):
    Order.objects.filter(number=number).update(paid=True)
    OldTask.objects.filter(biz_code=CODE, biz_num=number, status="waiting").delete()  # until the cut-over
    cancel_task(CODE, number)


def cancel_order(number):
    Order.objects.filter(number=number, paid=False).update(cancellations=F("cancellations") + 1)
