"""What the overview reads depends neither on how many tasks wait nor on how many runs have ended."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.rows import MINUTE, NOW
from tests.admin.test_cost import FEW, MANY, Page, fill, fill_with_what_is_rare, measured, plans_by_index
from tests.stats.fills import ended

pytestmark = pytest.mark.per_database

PAGES: list[Page] = [
    ("overview", {}),
    ("overview", {"ahead": "month", "span": "week"}),
    ("overview", {"format": "json"}),
]


@pytest.mark.usefixtures("frozen")
def test_cost_of_the_overview(live_db: str) -> None:
    client: Any = Client()
    client.force_login(User.objects.create_superuser("boss"))
    fill_with_what_is_rare()
    for number in range(20):
        ended(5, NOW - number * MINUTE)
    with plans_by_index(live_db):
        fill(0, FEW)
        few = measured(client, live_db, PAGES)
        fill(FEW, MANY)
        many = measured(client, live_db, PAGES)
    assert not {page: (few[page], many[page]) for page in few if many[page] > 1.2 * few[page] + 50}
