"""Which executor each task is assigned to."""

from collections import Counter

import pytest

from django_delayed_tasks.store.claiming.affinity import share_of


@pytest.mark.parametrize("executors", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("step", [1, 2, 3, 5, 9])
def test_each_executor_has_a_share_of_what_one_node_numbered(step: int, executors: int) -> None:
    """A cluster of three nodes numbers rows 1, 4, 7 … on its first: by the plain remainder all would be one's."""
    ids = range(100_001, 100_001 + 600 * step, step)
    shares = Counter(share_of(task_id, executors) for task_id in ids)
    assert sorted(shares) == list(range(executors))
    assert min(shares.values()) > 600 / executors / 2
