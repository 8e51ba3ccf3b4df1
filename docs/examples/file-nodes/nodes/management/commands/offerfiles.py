from django.core.management.base import BaseCommand

from nodes.task_handlers import offer_files


class Command(BaseCommand):
    help = "Adds a task for each new file."

    def handle(self, **options):
        print(f"Files offered: {offer_files()}.")
