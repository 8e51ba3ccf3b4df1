"""What the reference of statistics says is so: its example runs, its names exist, and no other."""

from dataclasses import fields
from functools import cached_property
from typing import Any

import pytest

from django_delayed_tasks import stats
from django_delayed_tasks.states import RunOutcome
from tests import pages
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, task
from tests.pages import ROOT, names, rows
from tests.stats.fills import ended

PAGE = ROOT / "docs/reference/stats.md"
FUNCTIONS = {row[0].strip("`").partition("(")[0] for row in rows(PAGE, "Functions")}
CLASSES = {row[0].strip("`"): row[1] for row in rows(PAGE, "What they return")}


@pytest.mark.django_db
@pytest.mark.usefixtures("frozen")
def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    ended(3, NOW - MINUTE)
    ended(2, NOW - MINUTE, outcome=RunOutcome.FAILED, error="shop.Declined")
    task("late", NOW - HOUR, claim_at=NOW - HOUR, queue="mail")
    task("soon")
    [example] = pages.blocks(PAGE, "python")
    exec(example.text, {})
    said = capsys.readouterr().out
    assert f"{CODE} 5 2" in said
    assert f"{CODE} shop.Declined 2" in said
    assert "mail 1:00:00 []" in said
    assert "{'test.shop': 1}" in said
    assert "error No executor is alive (1 task due, the first for 1 h). Start one" in said


def test_names_are_those_of_the_reference() -> None:
    assert FUNCTIONS | set(CLASSES) == set(stats.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_attributes_are_those_of_the_reference(name: str) -> None:
    cls: Any = getattr(stats, name)
    properties = {key for key, value in vars(cls).items() if isinstance(value, property | cached_property)} - {"_sum"}
    found = {field.name for field in fields(cls)} | properties | ({"percentile"} if name == "Durations" else set())
    documented = {word.partition("(")[0] for word in names([[CLASSES[name]]])}
    internal = {"Runs": {"cells"}, "Durations": {"buckets", "sum"}}
    kinds = {"Bar", "HeldBack", "Limited", "Suspect", "lateness", "run_time", '"error"', '"warning"', '"info"'} - found
    assert documented - kinds == found - internal.get(name, set())
