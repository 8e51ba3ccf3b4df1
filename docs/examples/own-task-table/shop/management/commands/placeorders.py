from datetime import timedelta

from django.core.management.base import BaseCommand

from shop.services import place_order, place_order_as_before


class Command(BaseCommand):
    help = "Places fifty orders, most of which should have been paid by now; for ten there are three days."

    def add_arguments(self, parser):
        parser.add_argument("prefix")
        parser.add_argument("--as-before", action="store_true")

    def handle(self, prefix, as_before, **options):
        place = place_order_as_before if as_before else place_order
        for number in range(50):
            place(f"{prefix}-{number}", timedelta(days=3 if number < 10 else 0))
