from collections.abc import Callable

from tests.examples.follower import Example


def test_each_file_is_done_once_and_the_killed_nodes_file_by_another(copy_of: Callable[[str], Example]) -> None:
    nodes = copy_of("file-nodes")
    nodes.follow()

    runs = "from django_delayed_tasks import get_runs; r = get_runs('read-file'); "
    outcomes = "r.filter(outcome=0).count(), r.filter(outcome=0).values('biz_num').distinct().count()"
    assert nodes.evaluate(f"{runs}print({outcomes}, r.filter(outcome=5).count() > 0)") == "18 18 True"
