"""A view that Prometheus scrapes in a web process: the cluster's metrics, and those of an executor in this process."""

from django.http import HttpRequest, HttpResponse

from django_delayed_tasks.conf import settings
from django_delayed_tasks.metrics import pages


def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with the metrics; the project decides who may read them."""
    return HttpResponse(pages.of_database(settings.DATABASE), content_type=pages.KIND)
