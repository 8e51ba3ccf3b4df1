from collections import Counter

from django.core.management.base import BaseCommand
from django_delayed_tasks import get_runs
from django_delayed_tasks.states import RunOutcome

from crawler.models import Page
from crawler.task_handlers import add_pages
from crawler.web import START


class Command(BaseCommand):
    help = "Adds the start page, and says what has been crawled so far."

    def handle(self, **options):
        print(f"Tasks added: {add_pages([START])}")
        fetches = Counter(get_runs("fetch-page").values_list("biz_num", flat=True))
        failed = get_runs("fetch-page").filter(outcome=RunOutcome.FAILED)
        print(f"Pages: {Page.objects.count()}. Missing: {failed.count()}.")
        print(f"Fetched more than once: {sum(count > 1 for count in fetches.values())}.")
