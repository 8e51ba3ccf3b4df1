"""In which order those who wait for a resource get it."""

from contextlib import ExitStack
from datetime import timedelta
from threading import Event

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.leases import Pool, renewer
from django_delayed_tasks.leases.acquiring import Contender, Request
from django_delayed_tasks.leases.waiting import GRACE, MAX_PAUSE, MIN_PAUSE, SHARE_OF_WAIT, Pauses, standing, wake
from django_delayed_tasks.models import Waiter
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import MUTEXES
from tests.leases.rows import POOL, TTL, add, later, taken, wanted
from tests.store.verbs import ALIAS
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

MINUTE = timedelta(minutes=1)


def enter() -> int:
    return line.enter(ALIAS, wanted(), MINUTE)


def contender() -> Contender:
    return Contender(Request(ALIAS, wanted(), TTL, 0), lambda: False)


def choice(place: int) -> str | None:
    """Return the name of the resource that a contender in this place would try to take."""
    view = line.queue_view(ALIAS, wanted(), place)
    chosen = contender()._choose(view, 0.0)
    names = {pk: name for pk, name in Pool(POOL).resources().values_list("pk", "name")}  # noqa: C416
    return names[chosen[0]] if chosen else None


def test_each_goes_for_another_one() -> None:
    add("a", "b", "c")
    places = [enter() for _ in range(4)]
    assert [choice(place) for place in places] == ["a", "b", "c", None]
    assert choice(line.LAST) is None
    line.leave(ALIAS, places[:2])
    assert [choice(place) for place in places[2:]] == ["a", "b"]
    assert choice(line.LAST) == "c"


def test_lines_do_not_meet() -> None:
    add("a")
    for other in (resources.WantedResource("others"), wanted("a")):
        line.enter(ALIAS, other, MINUTE)
    assert line.queue_view(ALIAS, wanted(), line.LAST).ahead == 0


@pytest.mark.usefixtures("frozen")
def test_a_place_that_is_not_renewed_is_passed_by_and_forgotten() -> None:
    dead, alive = enter(), enter()
    with later(59):
        line.renew(ALIAS, [alive], MINUTE)
        assert line.queue_view(ALIAS, wanted(), alive)[:2] == (1, True)
    with later(61):
        assert line.queue_view(ALIAS, wanted(), alive)[:2] == (0, True)
        assert line.queue_view(ALIAS, wanted(), dead)[:2] == (0, False)
        assert line.sweep(ALIAS) == 0
    with later(60 + 31):
        assert line.sweep(ALIAS) == 1
    assert list(Waiter.objects.values_list("pk", flat=True)) == [alive]


def test_a_lost_place_is_had_again() -> None:
    places = [enter() for _ in range(3)]
    line.pass_by(ALIAS, wanted(), places[2], 2)
    assert line.queue_view(ALIAS, wanted(), places[2])[:2] == (0, True)
    assert line.enter(ALIAS, wanted(), MINUTE, places[0]) == places[0]
    assert line.enter(ALIAS, wanted(), MINUTE, places[0]) == places[0]
    assert line.queue_view(ALIAS, wanted(), places[2])[:2] == (1, True)


def test_in_the_order_of_coming() -> None:
    add("a")
    order: list[int] = []

    def come(number: int) -> None:
        with Pool(POOL).lease(wait=60):
            order.append(number)

    with Pool(POOL).lease():
        threads = []
        for number in range(5):
            threads.append(start_thread(lambda number=number: come(number)))  # type: ignore[misc]
            wait_until(lambda number=number: Waiter.objects.count() == number + 1)  # type: ignore[misc]
    for thread in threads:
        thread.result()
    assert order == [0, 1, 2, 3, 4]
    assert Waiter.objects.count() == 0


def test_who_comes_again_at_once_does_not_overtake() -> None:
    """The holders of all resources release and acquire in a loop, while others wait."""
    add("a", "b")
    rounds: dict[int, int] = dict.fromkeys(range(6), 0)
    stop = Event()

    def loop(number: int) -> None:
        while not stop.is_set():
            with Pool(POOL).lease(wait=60):
                rounds[number] += 1

    threads = [start_thread(lambda number=number: loop(number)) for number in rounds]  # type: ignore[misc]
    wait_until(lambda: min(rounds.values()) >= 1)  # all have begun
    before = dict(rounds)
    wait_until(lambda: all(rounds[number] >= before[number] + 10 for number in rounds))
    stop.set()
    made = [rounds[number] - before[number] for number in rounds]
    for thread in threads:
        thread.result()
    assert max(made) <= 4 * min(made), made


def test_those_who_died_waiting_hold_no_other_up() -> None:
    add("a", "b")
    dead = [enter() for _ in range(5)]
    with Pool(POOL).lease(wait=60) as resource:
        assert resource.name in ("a", "b")
    assert Waiter.objects.filter(pk__in=dead).count() == 3


def test_another_one_in_line_is_kept_by_its_process() -> None:
    held = taken_all("a")
    with_place = Event()

    def wait() -> str:
        with_place.set()
        with Pool(POOL).lease(wait=60) as resource:
            return resource.name

    thread = start_thread(wait)
    assert with_place.wait(60)
    wait_until(places_kept)
    before = Waiter.objects.get().expires_at
    for place in places_kept():
        renewer.renewer._renew_places(ALIAS, [place])
    assert Waiter.objects.get().expires_at > before
    resources.release(ALIAS, held)
    assert thread.result() == "a"


def test_a_waiter_is_woken_only_by_what_it_wants() -> None:
    """One of a pool by each resource of it, one of a mutex by that mutex."""
    with ExitStack() as stack:
        proxy, index = (
            stack.enter_context(standing(ALIAS, one))[1].woken
            for one in (wanted(), resources.WantedResource(MUTEXES, "index"))
        )
        for given_back, woken in {
            resources.WantedResource(MUTEXES, "other"): [],
            resources.WantedResource("others", "a"): [],
            resources.WantedResource(MUTEXES, "index"): [index],
            wanted("a"): [proxy],
        }.items():
            wake(ALIAS, given_back)
            assert [event for event in (proxy, index) if event.is_set()] == woken
            for event in woken:
                event.clear()


def places_kept() -> list[renewer.Place]:
    """Return the places in lines that the renewer of this process keeps."""
    return [place for place in list(renewer.renewer._due) if isinstance(place, renewer.Place)]


def taken_all(name: str) -> resources.Grant:
    add(name)
    return taken(name)


@pytest.mark.parametrize("ahead", [0, 1, 5, 60, 1000])
def test_pauses(ahead: int) -> None:
    """The first contender always looks again before others take what falls to it."""
    pauses = Pauses()
    for waited in (0.0, 0.1, 1.0, 100.0, 10_000.0):
        pauses._began = clock.monotonic() - waited
        seconds = pauses.seconds(ahead, False)
        assert 0.8 * MIN_PAUSE <= seconds <= MAX_PAUSE
        assert ahead or seconds < GRACE
        assert pauses.seconds(ahead, True) < GRACE


@pytest.mark.parametrize("waited", [0.2, 0.5, 1.0, 2.0])
def test_a_pause_is_a_small_part_of_the_time_waited_so_far(waited: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contender far back would otherwise notice an unexpected release late."""
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    pauses = Pauses()
    now[0] = waited
    assert 0.8 * SHARE_OF_WAIT * waited <= pauses.seconds(1000, False) <= SHARE_OF_WAIT * waited
