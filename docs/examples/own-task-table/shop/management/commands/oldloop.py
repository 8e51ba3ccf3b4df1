import signal
import time
from threading import Event

from django.core.management.base import BaseCommand
from django.utils import timezone

from shop.models import OldTask
from shop.services import cancel_order


class Command(BaseCommand):
    help = "Runs what is due in t_task, until SIGTERM: the loop of before, in which nothing has changed."

    def handle(self, **options):
        stopping = Event()
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())
        print("The old loop is running.", flush=True)
        while not stopping.is_set():
            row = OldTask.objects.filter(status="waiting", when__lte=timezone.now()).first()
            if row:
                run(row)
            time.sleep(0.02)


def run(row):
    if OldTask.objects.filter(pk=row.pk, status="waiting").update(status="running"):
        cancel_order(row.biz_num)
        OldTask.objects.filter(pk=row.pk).update(status="done")
