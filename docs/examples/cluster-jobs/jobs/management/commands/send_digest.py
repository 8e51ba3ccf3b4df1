from django.core.management.base import BaseCommand

from jobs.digest import send_digest


class Command(BaseCommand):
    help = "Sends the digest, unless another host does."

    def handle(self, **options):
        send_digest()
