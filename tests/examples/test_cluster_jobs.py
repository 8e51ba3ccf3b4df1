from collections.abc import Callable

from tests.examples.follower import Example


def test_standby_takes_over_and_no_entry_is_read_twice_or_left_out(copy_of: Callable[[str], Example]) -> None:
    jobs = copy_of("cluster-jobs")
    jobs.follow()

    entries = "from jobs.models import Entry; e = Entry.objects.order_by('number'); "
    read = jobs.evaluate(entries + "print(*e.values_list('number', flat=True), *dict.fromkeys(x.reader for x in e))")
    *numbers, first, second, third = read.split()
    assert [int(number) for number in numbers] == list(range(1, len(numbers) + 1))
    assert {first, second, third} == {"web1", "web2", "web3"}
