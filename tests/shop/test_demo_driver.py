"""The driver of the demonstration tells every story to its end."""

from testproject.demo.book import Book
from testproject.demo.client import ShopClient
from testproject.demo.driver import Driver, Story
from testproject.demo.stories import all_stories, shares
from tests.waiting import wait_until

ADDRESS = "http://127.0.0.1:9"


def steps(name: str, told: list[str], *pauses: float) -> Story:
    for number, pause in enumerate(pauses):
        client = yield pause
        assert isinstance(client, ShopClient)
        told.append(f"{name}{number}")


def failing() -> Story:
    yield 0
    raise RuntimeError("the shop has burnt down")


def drive(*stories: Story, threads: int = 3) -> Driver:
    driver = Driver(ADDRESS, stories, threads)
    driver.start()
    wait_until(lambda: driver.finished)
    return driver


def test_steps_happen_in_their_order_and_at_their_time() -> None:
    told: list[str] = []

    drive(steps("a", told, 0, 0.4), steps("b", told, 0.2, 0.4))

    assert told == ["a0", "b0", "a1", "b1"]


def test_a_story_that_fails_does_not_stop_the_others() -> None:
    told: list[str] = []

    driver = drive(failing(), steps("a", told, 0.1, 0.1), threads=1)

    assert told == ["a0", "a1"]
    assert len(driver.problems) == 1
    assert "the shop has burnt down" in driver.problems[0]


def test_nothing_to_tell_is_finished_at_once() -> None:
    assert drive().problems == []


def test_every_kind_appears_early_and_as_often_as_its_share() -> None:
    taken = [kind for kind, _ in zip(shares([("a", 3), ("b", 1)]), range(8), strict=False)]

    assert taken == ["a", "b", "a", "a", "a", "b", "a", "a"]


def test_there_is_a_story_for_every_promotion_and_order() -> None:
    products = range(1, 22)

    assert len(all_stories(Book(), products, orders=30, seed=1)) == 20 + 30 + 1
