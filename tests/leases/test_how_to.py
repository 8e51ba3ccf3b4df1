"""What the guide to mutexes shows does what it says."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks.clock import EPOCH
from django_delayed_tasks.leases import mutex
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.usefixtures("live_db")


def shown(words: str) -> str:
    """The one example of the page that contains these words."""
    [block] = [block for block in blocks(ROOT / "docs/how-to/mutex.md", "python") if words in block.text]
    return block.text


@pytest.fixture
def _sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_sigterm")
def test_after_sigterm_the_mutex_is_free_at_once() -> None:
    before, after = shown("signal.SIGTERM").split("...")
    with pytest.raises(SystemExit):
        exec(f"{before}os.kill(os.getpid(), signal.SIGTERM){after}", {"os": os})
    with mutex("feed-reader") as lease:
        lease.check()


def test_each_holder_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(shown("lru_cache"), names)
    calls = [("web1", 7), ("web1", 7), ("web2", 7), ("web2", 7), ("web1", 7)]
    for second, holder in enumerate(calls):
        names["feed_reader"].on_standby(*holder, EPOCH + timedelta(seconds=second))
    told = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert told == ["web1,", "web2,", "web1,"]
