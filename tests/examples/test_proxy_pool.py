from collections.abc import Callable

import pytest

from tests.examples.follower import Example

pytestmark = pytest.mark.per_database


def test_a_hundred_crawlers_share_forty_proxies(copy_of: Callable[[str], Example]) -> None:
    copy_of("proxy-pool").follow()  # a proxy that two crawlers use at the same time ends the demonstration
