"""A view that Prometheus scrapes in a web process: the cluster's metrics, and those of an executor in this process."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from django_delayed_tasks.conf import settings
from django_delayed_tasks.metrics import pages


@transaction.non_atomic_requests  # with ATOMIC_REQUESTS, it could not be called while the database is away
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with the metrics; the project decides who may read them.

    While the database is away, the answer has what this process has counted, and ``delayed_tasks_database_up`` is 0.
    """
    return HttpResponse(pages.of_database(settings.DATABASE), content_type=pages.KIND)
