"""Every way of adding meets every other call, in each order, and between the statements of each.

What comes of it is what the state table says of one of the two before the other. While one of them is held open the
other one waits or is answered at once: that answer must be right too.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from django_delayed_tasks.models import Success, Task, TaskRun
from tests.races.blocking import PATIENCE, REFRESHED, waiting
from tests.races.pairs import ADDS, CALLS, PAIRS, Call, Subject, allowed, look, reach
from tests.store.verbs import ALIAS
from tests.threads import KeptThread

__test__ = settings.DDT_DATABASE != "sqlite"  # which has one writer at a time

pytestmark = pytest.mark.usefixtures("frozen")

WRITES = re.compile(rf"(INSERT INTO|INSERT IGNORE INTO|UPDATE|DELETE|DELETE FROM) {Task._meta.db_table}\b")
SINGLE = {name: add for name, add in ADDS.items() if name not in ("many earliest", "many latest")}
"""Without those that add one by one."""
BETWEEN = {
    name: [state for state in states if state not in ("deferred", "rearmed")]
    for name, states in PAIRS.items()
    if name not in ("again", "recur")  # which are settled as "retry" is
}
"""The states in which they meet between statements."""
Meetings = dict[str, tuple[Call, Subject]]
"""The way of adding, and the task, by its number."""


def meetings(call: str) -> Meetings:
    """A task for each way of adding, in each state that the call meets."""
    met: Meetings = {}
    for state in PAIRS[call]:
        adds = {f"{name} / {state}": add for name, add in ADDS.items()}
        met |= {subject.num: (adds[subject.num], subject) for subject in reach(state, adds)}
    return met


def add_to(add: Call, subject: Subject) -> Any:
    return add.real([subject])[subject.num]


class Others:
    """Threads with connections that are kept: thousands of calls come from them when they are told to."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.idle: list[KeptThread] = []

    def begin(self, call: Call, subjects: Iterable[Subject]) -> list[KeptThread]:
        """Begin the call while this connection stands still: in a thread for each row, or in one for all."""
        subjects = list(subjects)
        calls = [subjects] if call.of_all else [[subject] for subject in subjects]
        return [self._start(partial(call.real, some)) for some in calls]

    def _start(self, function: Callable[[], Any]) -> KeptThread:
        thread = self.idle.pop() if self.idle else self.stack.enter_context(KeptThread())
        thread.start(function)
        return thread

    def told(self, threads: Iterable[KeptThread]) -> dict[str, Any]:
        """Return what the calls of these threads returned, by the numbers of the tasks."""
        answers: dict[str, Any] = {}
        for thread in threads:
            answers |= thread.result()
            self.idle.append(thread)
        return answers


@pytest.fixture(scope="module")
def others(django_db_setup: None) -> Iterator[Others]:
    others = Others()
    with others.stack:
        yield others


def wait_until_each_waits_or_is_done(threads: Iterable[KeptThread]) -> None:
    deadline = time.monotonic() + PATIENCE
    while going := [thread for thread in threads if thread.is_alive()]:
        going[0].join(REFRESHED[0] if connection.vendor == "mysql" else 0.01)
        if waiting() >= sum(thread.is_alive() for thread in going):
            return
        assert time.monotonic() < deadline, "some neither end nor wait for a lock"


def check(call: Call, met: Meetings, said: dict[str, Any], became: dict[str, Any]) -> None:
    """Check that each meeting had the result of one of its two orders."""
    found = look()
    wrong = {}
    for num, (add, subject) in met.items():
        outcome = found.outcome(num, said[num], became[num])
        expected = dict(allowed(subject.model, add, call))
        if outcome not in expected.values():
            wrong[num] = (outcome, expected)
    assert wrong == {}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.usefixtures("live_db")
def test_adds_while_a_call_is_open(others: Others, name: str) -> None:
    call, met = CALLS[name], meetings(name)
    with transaction.atomic():
        became = call.real([subject for _, subject in met.values()])
        threads = [thread for add, subject in met.values() for thread in others.begin(add, [subject])]
        wait_until_each_waits_or_is_done(threads)
    check(call, met, others.told(threads), became)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.usefixtures("live_db")
def test_a_call_while_adds_are_open(others: Others, name: str) -> None:
    call, met = CALLS[name], meetings(name)
    with transaction.atomic():
        said = {num: add_to(add, subject) for num, (add, subject) in met.items()}
        threads = others.begin(call, [subject for _, subject in met.values()])
        wait_until_each_waits_or_is_done(threads)
    check(call, met, said, others.told(threads))


@contextmanager
def before_statement(number: int, act: Callable[[], None]) -> Iterator[None]:
    """Act before this connection sends its statement of this number.

    On MariaDB and MySQL not if its transaction has written a task by then: there the other one always waits, which is
    what the tests above are about, and it takes long to see.
    """
    sent: list[str] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent.append(sql)
        waits = connection.vendor == "mysql" and connection.in_atomic_block and any(map(WRITES.match, sent[:-1]))
        if len(sent) == number and not waits:
            act()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        yield


class Meeting(list[KeptThread]):
    """The thread of a call that comes when it is told to; none, if it never was."""

    def __init__(self, others: Others, call: Call, subject: Subject) -> None:
        super().__init__()
        self.begin_call = partial(others.begin, call, [subject])

    def begin(self) -> None:
        self += self.begin_call()
        wait_until_each_waits_or_is_done(self)


def meet_at_each(states: list[str], meet: Callable[[int, Call, Subject], bool]) -> int:
    """Let them meet before the second statement, the third, and so on, until there are no more; how often they met."""
    count = 0
    for state, (way, add) in product(states, SINGLE.items()):
        number = 2
        while meet(number, add, reach(state, [f"{way} / {state} / {number}"])[0]):
            number += 1
        count += number - 2
        for model in (Task, TaskRun, Success):
            model.objects.all()._raw_delete(ALIAS)
    return count


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.usefixtures("live_db")
def test_a_call_between_the_statements_of_an_add(others: Others, name: str) -> None:
    call = CALLS[name]

    def meet(number: int, add: Call, subject: Subject) -> bool:
        threads = Meeting(others, call, subject)
        with before_statement(number, threads.begin):
            said = add_to(add, subject)
        if threads:
            check(call, {subject.num: (add, subject)}, {subject.num: said}, others.told(threads))
        return bool(threads)

    assert meet_at_each(BETWEEN[name], meet)


@pytest.mark.parametrize("name", ["claim", "reap", "done", "done once"])
@pytest.mark.usefixtures("live_db")
def test_an_add_between_the_statements_of_a_call(others: Others, name: str) -> None:
    call = CALLS[name]

    def meet(number: int, add: Call, subject: Subject) -> bool:
        threads = Meeting(others, add, subject)
        with before_statement(number, threads.begin):
            became = call.real([subject])
        if threads:
            check(call, {subject.num: (add, subject)}, others.told(threads), became)
        return bool(threads)

    assert meet_at_each(BETWEEN[name], meet)
