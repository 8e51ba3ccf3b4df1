"""Values in addresses that no row can have: a page, a redirect or a refusal, never a 500, in every list and view."""

from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.db.models import BooleanField, CharField, DateTimeField, Field, Model
from django.test import Client

from django_delayed_tasks import api, leases
from django_delayed_tasks.models import Executor, PausedQueue, Resource, Task, TaskRun
from tests.admin import rows
from tests.admin.rows import list_of

pytestmark = pytest.mark.per_database

MODELS: list[type[Model]] = [Task, TaskRun, Executor, Resource, PausedQueue]
MOMENTS = [
    "9999-12-31T23:59:59.999999-23:00", "0001-01-01T00:00:00+23:00", "9999-12-31", "0000-00-00",
]  # fmt: skip
NUMBERS = ["9" * 23, "-" + "9" * 23, str(2**63), "nan"]
TEXTS = ["\U0001f600", "\\'%"]
FLAGS = ["maybe", "9" * 23]
KEYS = ["\0", "9" * 23, "-" + "9" * 23, "_00", "\U0001f600", "a/b", "1 or 1=1"]
VIEWS = ["change/", "history/", "delete/", ""]


@pytest.fixture(autouse=True)
def some_rows(live_db: str) -> None:
    """One of each kind. They are committed: PostgreSQL ends a transaction in which a value was refused."""
    rows.task()
    rows.run()
    rows.executor("a")
    api.pause_queue("mail")
    leases.Pool("p").add("a")


def values_for(field: "Field[Any, Any]") -> list[str]:
    """What to compare this field with."""
    if isinstance(field, DateTimeField):
        return MOMENTS
    if isinstance(field, BooleanField):
        return FLAGS
    return TEXTS if isinstance(field, CharField) else NUMBERS


def kinds_for(field: "Field[Any, Any]") -> list[str]:
    """How to compare it."""
    return ["exact", "in"] if isinstance(field, CharField | BooleanField) else ["exact", "in", "gt"]


def addresses(model: type[Model]) -> list[str]:
    """Each field that a list may be narrowed by, compared in each way with each value."""
    fields = [model._meta.get_field(name) for name in getattr(admin.site.get_model_admin(model), "lookups", ())]
    return [
        f"?{field.name}__{kind}={quote(value)}"
        for field in fields
        if isinstance(field, Field)
        for kind in kinds_for(field)
        for value in values_for(field)
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)
def test_lists(boss: Client, model: type[Model]) -> None:
    found = addresses(model)
    assert len(found) > 20 or model is PausedQueue
    filters = [f"?code={key}&queue={key}&pool={key}&due={key}&outcome={key}" for key in map(quote, KEYS)]
    pages = {
        address: boss.get(list_of(str(model._meta.model_name)) + address, follow=True) for address in found + filters
    }
    assert not {address[:80] for address, page in pages.items() if page.status_code not in (200, 400)}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)
def test_views_of_one(boss: Client, model: type[Model]) -> None:
    base = list_of(str(model._meta.model_name))
    pages = {
        (key, view): boss.get(f"{base}{quote(key, safe='')}/{view}", follow=True) for key in KEYS for view in VIEWS
    }
    assert not {at for at, page in pages.items() if page.status_code not in (200, 400, 403, 404)}
    posts = {key: boss.post(f"{base}{quote(key, safe='')}/delete/", {"post": "yes"}, follow=True) for key in KEYS}
    assert not {key for key, page in posts.items() if page.status_code not in (200, 400, 403, 404)}


@pytest.mark.parametrize("value", [*MOMENTS, *KEYS])
def test_a_form_that_is_filled_in_by_its_address(boss: Client, value: str) -> None:
    names = ("biz_num", "when", "when_0", "expires_at", "priority", "queue", "biz_ext", "trigger_text")
    page = boss.get(f"{list_of('task')}add/", dict.fromkeys((*names, "_changelist_filters"), value), follow=True)
    assert page.status_code in (200, 400)


@pytest.mark.parametrize("key", KEYS)
def test_what_is_chosen_for_an_action(boss: Client, key: str) -> None:
    for model, action in (("task", "cancel"), ("resource", "disable")):
        form = {"action": action, "_selected_action": [key]}
        page = boss.post(list_of(model), form, follow=True)
        assert page.status_code in (200, 400), model
    for name in ("pause", "resume", "name"):
        assert boss.post(list_of("pausedqueue"), {name: key}, follow=True).status_code == 200
