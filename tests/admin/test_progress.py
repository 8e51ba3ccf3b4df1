"""What runs report of their progress, as the admin shows it."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.admin.rows import NOW, page_of, task

LIST = reverse("admin:django_delayed_tasks_task_changelist")

pytestmark = pytest.mark.usefixtures("frozen")


def running(**fields: Any) -> Task:
    reported = {"progress_fraction": 0.999, "progress_note": "row 3 of <b>4</b>", "progress_at": NOW}
    return task(**{"status": TaskStatus.RUNNING, **reported, **fields})


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return str(response.content.decode())


def test_the_page_shows_the_note_escaped(boss: Client) -> None:
    page = text_of(boss.get(page_of(running())))
    assert "99 % · row 3 of &lt;b&gt;4&lt;/b&gt; · " in page


def test_a_note_is_not_needed(boss: Client) -> None:
    page = text_of(boss.get(page_of(running(progress_note="", progress_fraction=0.0))))
    assert "0 % · " in page


def test_the_list_shows_how_far_it_is(boss: Client) -> None:
    running()
    assert " 99 %" in text_of(boss.get(LIST))


def test_nothing_is_shown_of_a_run_that_reported_nothing(boss: Client) -> None:
    waiting = task()
    assert " %" not in text_of(boss.get(page_of(waiting)))
    assert " %" not in text_of(boss.get(LIST))


@pytest.mark.parametrize("fraction", [float("1e300"), -5.0])
def test_a_fraction_that_cannot_be(boss: Client, fraction: float) -> None:
    row = running(progress_fraction=fraction)
    text_of(boss.get(page_of(row)))
    text_of(boss.get(LIST))
