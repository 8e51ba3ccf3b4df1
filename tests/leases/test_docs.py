"""The reference of leases says what is so."""

import inspect
import re
from typing import Any

import pytest
from django.core.management.base import BaseCommand

from django_delayed_tasks.leases import LeasedResource, MutexLease, Pool, mutex
from django_delayed_tasks.management.commands.runmutex import Command
from django_delayed_tasks.models import Resource, Waiter
from tests.pages import ROOT, names, rows
from tests.test_docs import COMMANDS, MODELS, options_of, shown_parameters

LEASES = ROOT / "docs/reference/leases.md"
INTERNAL = {
    "release",
    "quarantine",
    "renewed",
    "lose",
    "acquire",
    "end",
    "hand_over",
    "undo",
    "expire",
    "renew_no_more",
}


@pytest.mark.parametrize("model", [Resource, Waiter])
def test_fields(model: Any) -> None:
    documented = {row[0].strip("`"): row[1] for row in rows(MODELS, model.__name__)}
    found = {field.name: field for field in model._meta.fields}
    assert list(documented) == list(found)
    assert {name for name, kind in documented.items() if "null" in kind} == {
        name for name, field in found.items() if field.null
    }
    lengths = {name: re.findall(r"\d+", kind) for name, kind in documented.items()}
    assert lengths == {name: [str(field.max_length)] if field.max_length else [] for name, field in found.items()}


def test_options_of_the_command() -> None:
    assert names(rows(COMMANDS, "`runmutex`")) == options_of(Command()) - options_of(BaseCommand())


def test_signatures() -> None:
    text = LEASES.read_text()
    assert f"## `mutex({', '.join(shown_parameters(mutex))})`" in text
    parameters = [name for name in inspect.signature(Pool).parameters]  # noqa: C416
    assert parameters == ["name", "quarantine", "using"]
    for method in ("lease", "add"):
        shown = ", ".join(shown_parameters(getattr(Pool, method))[1:])
        assert f"`{method}({shown})`" in text


@pytest.mark.parametrize("kind", [MutexLease, LeasedResource, Pool])
def test_methods(kind: type) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")} - INTERNAL - {"alias"}
    text = LEASES.read_text()
    assert {name for name in public if f"`{name}`" not in text and f"`{name}(" not in text} == set()
