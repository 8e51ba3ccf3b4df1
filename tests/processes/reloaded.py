"""A program under Django's reloader, as ``runserver`` is, with an executor in its threads."""

from threading import Event

import django

django.setup()

from django.utils import autoreload  # noqa: E402

from django_delayed_tasks import api  # noqa: E402


def main() -> None:
    api.start(name="dev")
    print("started", flush=True)
    Event().wait()


autoreload.run_with_reloader(main)
