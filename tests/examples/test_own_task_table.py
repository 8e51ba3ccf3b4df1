from collections.abc import Callable

from tests.examples.follower import Example


def test_tasks_of_an_own_table_are_moved_while_its_loop_runs(copy_of: Callable[[str], Example]) -> None:
    shop = copy_of("own-task-table")
    shop.follow()

    old = "from shop.models import OldTask; o = OldTask.objects; "
    counts = "o.filter(status='done').count(), o.filter(status='moved').count()"
    done, moved = map(int, shop.evaluate(f"{old}print({counts})").split())
    assert done > 0
    assert moved > 0
    assert done + moved == 99  # the one of a hundred that was paid while it waited there is deleted
