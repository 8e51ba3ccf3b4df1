"""A program under Django's reloader, as ``runserver`` is, with an executor in its threads."""

from threading import Event

import django

django.setup()

from django.utils import autoreload  # noqa: E402

from django_delayed_tasks import api  # noqa: E402
from django_delayed_tasks.executor.process import in_process  # noqa: E402, F401 - see below

# The executor is imported before the reloader looks at the modules: one that another thread imports at that moment ends
# Django's reloader with a KeyError.


def main() -> None:
    api.start(name="dev")
    print("started", flush=True)
    Event().wait()


autoreload.run_with_reloader(main)
