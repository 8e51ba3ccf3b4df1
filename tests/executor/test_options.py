"""The options of an executor: from the settings, from the call, and refused."""

import os
import socket
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks.exceptions import InvalidSetting
from django_delayed_tasks.executor.options import ExecutorOptions, from_settings

SET: dict[str, Any] = {
    "threads": 3,
    "poll_interval": 0.7,
    "heartbeat": 2.5,
    "lease": 11.0,
    "claim": "compare_and_set",
    "batch_size": 17,
    "max_rescues": 5,
    "shutdown_timeout": 12.5,
    "keep_history": timedelta(days=3),
    "once_retention": timedelta(days=30),
    "max_lost_threads": 4,
    "notify": False,
    "async_concurrency": 700,
}
"""Options that are settings too, each with another value than by default."""
OF_CALLS: dict[str, Any] = {
    "name": "one",
    "queues": ("mail",),
    "exclude_queues": ("slow",),
    "drain": True,
    "max_tasks": 9,
}
WRONG: list[tuple[str, Any]] = [
    ("threads", 0),
    ("poll_interval", 0),
    ("heartbeat", 0),
    ("lease", 0),
    ("claim", "no such strategy"),
    ("batch_size", 0),
    ("max_rescues", -1),
    ("shutdown_timeout", -1),
    ("keep_history", 7),
    ("once_retention", 7),
    ("max_lost_threads", -1),
    ("notify", "no"),
    ("async_concurrency", 0),
    ("async_concurrency", 100_001),
    ("database", 1),
]


def test_without_any_they_are_those_of_the_class(settings: Any) -> None:
    settings.DELAYED_TASKS = {}
    found = from_settings(name="one")
    assert found == ExecutorOptions(name="one")
    assert found == ExecutorOptions("default", 8, "one", None, (), 0.2, 3.0, 10.0, "auto", 300, 3, 30.0,
                                    timedelta(days=7), None, 8, True, False, None, 100)  # fmt: skip


def test_each_may_be_a_setting(settings: Any) -> None:
    settings.DELAYED_TASKS = {name.upper(): value for name, value in SET.items()}
    assert from_settings(name="one") == ExecutorOptions(name="one", **SET)


def test_each_may_be_given(settings: Any) -> None:
    settings.DELAYED_TASKS = {"THREADS": 99, "POLL_INTERVAL": 99.0}
    assert from_settings(**SET, **OF_CALLS) == ExecutorOptions(**SET, **OF_CALLS)


def test_none_leaves_the_setting(settings: Any) -> None:
    settings.DELAYED_TASKS = {"THREADS": 3}
    assert from_settings(threads=None).threads == 3


def test_names_are_of_the_process_and_differ() -> None:
    one, other = from_settings().name, from_settings().name
    assert one != other
    host, pid, number = one.rsplit("-", 2)
    assert (host, pid) == (socket.gethostname(), str(os.getpid()))
    assert len(number) == 4


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_is_no_setting_is_no_option(name: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"^{name}={value!r}: "):
        from_settings(**{name: value})


def test_a_misspelling_is_named_with_what_there_is() -> None:
    with pytest.raises(InvalidSetting, match=r"^no such option: nmae, thread; the options are database, threads, name"):
        from_settings(thread=1, nmae="one", queues=("mail",))


@pytest.mark.parametrize("most", [0, -1, "1", 1.0])
def test_max_tasks_refused(most: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"^max_tasks=.*: expected an int of at least 1$"):
        from_settings(max_tasks=most)


def test_max_tasks() -> None:
    assert from_settings(max_tasks=1).max_tasks == 1


def test_a_lease_is_longer_than_two_heartbeats() -> None:
    assert from_settings(heartbeat=5.0, lease=10.1).lease == 10.1
    with pytest.raises(InvalidSetting, match=r"^lease=10.0: must be longer than two heartbeats of 5.0 s$"):
        from_settings(heartbeat=5.0, lease=10.0)


@pytest.mark.parametrize("name", ["queues", "exclude_queues"])
@pytest.mark.parametrize("queues", ["mail", ("mail", ""), (1,), ("mail", None)])
def test_queues_refused(name: str, queues: Any) -> None:
    with pytest.raises(InvalidSetting, match=rf"^{name}=.*: must be a tuple of queue names$"):
        from_settings(**{name: queues})


@pytest.mark.parametrize("name", ["", " one", "one ", "o\nne", "o\0ne", 1, "x" * 195])
def test_names_refused(name: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"^name=.*: must be a string of 1 to \d+ printable characters$"):
        from_settings(name=name)


def test_a_supervisor_may_append_a_number_to_the_longest_name() -> None:
    from django_delayed_tasks.models import NAME_LENGTH

    assert from_settings(name="x" * (NAME_LENGTH - 6)).name
    with pytest.raises(InvalidSetting, match=f"1 to {NAME_LENGTH - 6} printable characters$"):
        from_settings(name="x" * (NAME_LENGTH - 5))


@pytest.mark.parametrize(
    ("queues", "excluded", "served"),
    [
        (None, (), ["mail", "slow", "default"]),
        (None, ("slow",), ["mail", "default"]),
        (("mail",), (), ["mail"]),
        (("mail", "slow"), ("slow",), ["mail"]),
        ((), (), []),
    ],
)
def test_which_queues_it_serves(queues: Any, excluded: tuple[str, ...], served: list[str]) -> None:
    options = ExecutorOptions(queues=queues, exclude_queues=excluded)
    assert [queue for queue in ("mail", "slow", "default") if options.serves(queue)] == served
