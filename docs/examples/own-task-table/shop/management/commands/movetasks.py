from django.core.management.base import BaseCommand

from shop.models import OldTask
from shop.moving import move_tasks


class Command(BaseCommand):
    help = "Moves the rows of t_task that wait to delayed tasks."

    def handle(self, **options):
        print(f"Moved: {move_tasks(OldTask.objects)}.")
