import time

from django.conf import settings
from django_delayed_tasks import Task, TaskHandler, add_tasks

from nodes.models import Document


class ReadFile(TaskHandler):
    biz_code = "read-file"

    def handle(self, task):
        print(f"reading {task.biz_num}", flush=True)
        text = (settings.FILES / task.biz_num).read_text()
        time.sleep(settings.SECONDS_PER_FILE)
        found = {"words": len(text.split()), "node": settings.NODE}
        Document.objects.update_or_create(name=task.biz_num, defaults=found)
        IndexDocuments.schedule(task.biz_num)
        print(f"done {task.biz_num}", flush=True)


class IndexDocuments(TaskHandler):
    biz_code = "index-document"
    queue = "index"
    atomic = True

    def handle_batch(self, tasks):
        names = [task.biz_num for task in tasks]
        Document.objects.filter(name__in=names).update(indexed=True)


def offer_files():
    """Have each file read once, by a node that has it; return how many tasks were added."""
    names = [str(path.relative_to(settings.FILES)) for path in settings.FILES.glob("*/*.txt")]
    tasks = [Task(biz_code="read-file", biz_num=name, queue=queue_of(name)) for name in names]
    return add_tasks(tasks, if_exists="keep", once=True)


def queue_of(name):
    """Return the folder: ``shared``, which every node mounts, or the name of a node."""
    return name.partition("/")[0]
