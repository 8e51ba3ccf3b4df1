from django.core.management.base import BaseCommand
from django.db.models import Count

from nodes.models import Document


class Command(BaseCommand):
    help = "Says which node has read how many files."

    def handle(self, **options):
        for row in Document.objects.values("node").annotate(files=Count("pk")).order_by("node"):
            print(f"{row['node']}: {row['files']} files")
        documents = Document.objects.all()
        print(f"Files read: {documents.count()}. Indexed: {documents.filter(indexed=True).count()}.")
