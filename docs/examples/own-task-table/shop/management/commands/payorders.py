from django.core.management.base import BaseCommand

from shop.services import pay_order


class Command(BaseCommand):
    help = "Pays these orders."

    def add_arguments(self, parser):
        parser.add_argument("numbers", nargs="+")

    def handle(self, numbers, **options):
        for number in numbers:
            pay_order(number)
