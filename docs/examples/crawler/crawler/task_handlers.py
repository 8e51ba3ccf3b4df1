from hashlib import sha256

from django_delayed_tasks import Fail, Task, TaskHandler, add_tasks

from crawler.models import Page
from crawler.web import NotFound, fetch


class FetchPage(TaskHandler):
    biz_code = "fetch-page"

    def handle(self, task):
        url = task.biz_ext["url"]
        try:
            title, links = fetch(url)
        except NotFound:
            return Fail("there is no such page")
        Page.objects.update_or_create(key=task.biz_num, defaults={"url": url, "title": title})
        add_pages(links)
        return None


def add_pages(urls):
    """Have each page fetched once; return how many tasks were added."""
    return add_tasks([task_for(url) for url in urls], if_exists="keep", once=True)


def task_for(url):
    return Task(biz_code="fetch-page", biz_num=key_of(url), biz_ext={"url": url})


def key_of(url):
    """Return the URL, or its hash if it is too long for a ``biz_num``."""
    return url if len(url) <= 255 else f"sha256:{sha256(url.encode()).hexdigest()}"
