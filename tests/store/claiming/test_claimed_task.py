"""What a handler's logs show of its task."""

from dataclasses import fields

import pytest

from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from tests.store import verbs

pytestmark = pytest.mark.django_db


def test_its_repr_has_neither_data_nor_what_it_remembers() -> None:
    shown = [field.name for field in fields(ClaimedTask) if field.repr]
    assert [name for name in shown if name.startswith("_")] == ["_trigger_text"]
    verbs.add("order-1", biz_ext={"token": "s3cret"})
    text = repr(verbs.claim_one())
    assert "s3cret" not in text
    assert "biz_num='order-1'" in text
