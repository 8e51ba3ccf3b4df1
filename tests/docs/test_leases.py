"""The examples of the pages about mutexes and pools do what the pages say."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from django_delayed_tasks.leases import MutexLease, Pool, ResourceUnavailable, mutex
from django_delayed_tasks.models import Resource
from tests.docs.shown import shown

pytestmark = pytest.mark.usefixtures("live_db")


class Enough(Exception):
    """Ends the loop of a daemon."""


def ending_after(calls: int, method: Any) -> Any:
    """Return the method of a lease, which raises ``Enough`` after this number of calls."""
    done = []

    def limited(lease: MutexLease) -> None:
        method(lease)
        done.append(lease)
        if len(done) == calls:
            raise Enough

    return limited


def terminated(lease: MutexLease) -> bool:
    """Send SIGTERM to this process, as its system does when it stops the service."""
    os.kill(os.getpid(), signal.SIGTERM)
    return True


@pytest.fixture
def on_sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("on_sigterm")
def test_mutexes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with shown("how-to/mutex.md") as page:
        page.run()
        with pytest.raises(ResourceUnavailable), mutex("send-digest"):
            pass
        page.run().run().run()
        page["rebuild_index"]()
        page.run()
        [state] = Resource.objects.filter(name="import-orders").values_list("state", flat=True)
        assert state == {"last_id": 99}
        page.run()

        with monkeypatch.context() as patch:
            patch.setattr(MutexLease, "save_state", ending_after(3, MutexLease.save_state))
            with pytest.raises(Enough):
                page.run()
        with mutex("feed-reader") as lease:
            assert lease.state == {"last": 3}

        with monkeypatch.context() as patch:
            patch.setattr(MutexLease, "is_held", property(terminated))
            with pytest.raises(SystemExit):
                page.run()
        with mutex("feed-reader") as lease:
            lease.check()

        page.run()
        for host in ("web1", "web1", "web2", "web2", "web1"):
            page["feed_reader"].on_standby(host, 7, None)
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["web1,", "web2,", "web1,"]


def test_pools(capsys: pytest.CaptureFixture[str]) -> None:
    with shown("how-to/pools.md") as page:
        page.run_all()
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["crawling through eu-1 10.1.0.7:3128", "logged in through de-1", "crawling through fr-1"]
    assert said[3].startswith("continuing with ")
    assert [line.split()[1] for line in said[4:6]] == ["/a", "/b"]
    assert len(said) == 7
    assert Pool("proxies").resources().count() == 4
