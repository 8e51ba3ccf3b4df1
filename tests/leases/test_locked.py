"""Renewals while a transaction has some of the rows locked; SQLite, which locks the whole file, has nothing to say."""

import pytest
from django.conf import settings
from django.db import transaction

from django_delayed_tasks.leases import mutex
from django_delayed_tasks.store.resources import resources
from django_delayed_tasks.store.resources.resources import RenewalResult
from tests.leases.rows import TTL, add, make_due, taken
from tests.store.verbs import ALIAS
from tests.threads import in_thread
from tests.waiting import wait_until

__test__ = settings.DDT_DATABASE != "sqlite"
pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


@pytest.mark.parametrize("commits", [True, False])
def test_a_renewal_waits_for_no_other_transaction(commits: bool) -> None:
    add("a", "b")
    held, other = taken("a"), taken("b")

    def renew() -> RenewalResult:
        return resources.renew(ALIAS, [(held, TTL), (other, TTL)])

    with transaction.atomic():
        assert resources.release_by_force(ALIAS, [(held.id, held.version)])
        assert in_thread(renew) == ({other}, {held})
        transaction.set_rollback(not commits)
    assert renew() == (({other}, set()) if commits else ({held, other}, set()))


def test_what_a_transaction_keeps_from_being_renewed_does_not_cost_the_others() -> None:
    with mutex("kept", ttl=600) as kept, mutex("other", ttl=60) as other:
        with transaction.atomic():
            kept.state["x"] = 1
            kept.save_state()
            make_due(kept)
            for _ in range(3):
                seen = other.runs_until
                make_due(kept)
                make_due(other)
                wait_until(lambda: other.runs_until > seen)  # noqa: B023
        other.check()
        kept.check()
        make_due(kept)
        seen = kept.runs_until
        wait_until(lambda: kept.runs_until > seen)
