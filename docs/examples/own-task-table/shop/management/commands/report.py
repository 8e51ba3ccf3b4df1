from django.core.management.base import BaseCommand
from django_delayed_tasks import get_tasks_by_code

from shop.models import OldTask, Order
from shop.services import CODE


class Command(BaseCommand):
    help = "Says what has become of the orders and their tasks."

    def handle(self, **options):
        orders = Order.objects.all()
        print(f"Orders: {orders.count()}. Paid: {orders.filter(paid=True).count()}.")
        print(f"Cancelled once: {orders.filter(cancellations=1).count()}.")
        print(f"Cancelled twice: {orders.filter(cancellations__gt=1).count()}.")
        print(f"Waiting for three days: {get_tasks_by_code(CODE).count()}.")
        print(f"Waiting in t_task: {OldTask.objects.filter(status='waiting').count()}.")
