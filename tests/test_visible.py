"""What a reader does not see: names do not have it, and the log has escapes in its place."""

import json
import logging
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from django_delayed_tasks import Task, add_task, add_tasks, get_tasks_by_code, pause_queue, resume_queue
from django_delayed_tasks.api import cancel_task
from django_delayed_tasks.exceptions import InvalidSetting, InvalidTask
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.metrics import pages
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.support.visible import unseen_in, visible, visible_lines
from tests.executor.conftest import own_handlers
from tests.executor.parts import add, handler_of
from tests.function_tasks import functions
from tests.function_tasks.framework import InvalidTask as FrameworksInvalidTask

__all__ = ["own_handlers"]

UNSEEN = {
    "a newline": "\n", "a return": "\r", "a tab": "\t", "escape": "\x1b", "delete": "\x7f", "CSI": "\x9b",
    "a line separator": "\u2028", "a paragraph separator": "\u2029", "an override": "\u202e", "an isolate": "\u2066",
    "a mark": "\u200f", "an Arabic mark": "\u061c", "no width": "\u200b", "a byte order mark": "\ufeff",
    "a soft hyphen": "\xad", "a word joiner": "\u2060", "a tag": "\U000e0041",
}  # fmt: skip
every_character = pytest.mark.parametrize("character", UNSEEN.values(), ids=UNSEEN)
SEEN = ["订单 17", "a b", "Zoë", "می‌خواهم", "👩‍👩‍👧", "\u3000x\u3000y".strip(), "שלום", "e\u0301", "\ufe0f☎"]
give: Any = functions.give
Rows: Any = Task._base_manager


@every_character
def test_it_is_escaped_as_json_has_it(character: str) -> None:
    text = f"a{character}b"
    assert visible(text) == f"a{json.dumps(character)[1:-1]}b"
    assert json.loads(f'"{visible(text)}"') == text
    assert unseen_in(text) == json.dumps(character)[1:-1]


@pytest.mark.parametrize("text", SEEN)
def test_what_is_seen_stays(text: str) -> None:
    assert visible(text) == text
    assert unseen_in(text) is None


HAVE_A_FORM = [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13460)]
JOINERS = [0x200C, 0x200D]


def test_every_control_and_format_character_is_unseen_but_for_joiners_and_what_has_a_form() -> None:
    found = [chr(code) for code in range(sys.maxunicode + 1)]
    unseen = [one for one in found if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp", "Cs")]
    accepted = {ord(one) for one in unseen if unseen_in(one) is None}
    assert set(JOINERS) <= accepted <= {*HAVE_A_FORM, *JOINERS}
    assert {one for one in found if unseen_in(one)} - set(unseen) <= {"\u2065", *map(chr, range(0xE0000, 0xE0080))}


def test_lines_stay_lines() -> None:
    assert visible_lines("a\n\tb\r\x1b[2J") == "a\n\tb\\r\\u001b[2J"


@pytest.fixture
def code(own_handlers: None) -> str:
    handler_of(lambda task: None)
    return "code"


def mutex_named(name: str) -> object:
    return mutex(name, ttl=10)


WRITES: dict[str, Callable[[str], object]] = {
    "add": lambda name: add_task(Task(biz_code="code", biz_num=name)),
    "add_many": lambda name: add_tasks([Task(biz_code="code", biz_num="1"), Task(biz_code="code", biz_num=name)]),
    "queue": lambda name: add_task(Task(biz_code="code", biz_num="1", queue=name)),
    "code": lambda name: add_task(Task(biz_code=name, biz_num="1")),
    "enqueue": lambda name: give.using(biz_num=name).enqueue(1),
    "enqueue_many": lambda name: give.using(biz_num=name).bulk_enqueue([([1], {})]),
    "pause_queue": pause_queue,
    "pool": Pool,
    "Pool.add": lambda name: Pool("pool").add(name),
    "mutex": mutex_named,
}


@every_character
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.django_db
def test_names_that_are_written_do_not_have_it(
    code: str, write: Callable[[str], object], character: str, settings: Any
) -> None:
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True}
    with pytest.raises((InvalidTask, FrameworksInvalidTask)) as raised:
        write(f"a{character}b")
    assert unseen_in(str(raised.value)) is None
    assert not Task.objects.exists()


@every_character
def test_queues_in_settings_do_not_have_it(character: str) -> None:
    name = f"a{character}b"
    for option in ("queues", "exclude_queues"):
        with pytest.raises(InvalidSetting, match=f"^{option}: queue="):
            from_settings(**{option: ("fine", name)})
    with pytest.raises(InvalidSetting, match="printable"):
        from_settings(name=name)
    with pytest.raises((FrameworksInvalidTask, InvalidTask)):
        give.using(queue_name=name)


def test_queues_of_a_backend_do_not_have_it() -> None:
    from django_delayed_tasks.backends.tasks import DelayedTasksBackend

    backend = DelayedTasksBackend("default", {"QUEUES": ["fine", "a\x1bb"], "OPTIONS": {}})
    [error] = backend.check()
    assert error.id == "django_delayed_tasks.E024"
    assert "TASKS['default']['QUEUES']: 'a\\x1bb': expected printable" in error.msg


@pytest.mark.django_db
@pytest.mark.parametrize("text", SEEN)
def test_names_in_any_script_are_accepted(code: str, text: str) -> None:
    assert add_task(Task(biz_code="code", biz_num=text)).task_id


@pytest.mark.django_db
def test_rows_that_have_it_can_still_be_found_and_cancelled(code: str) -> None:
    add("1")
    Rows.update(biz_num="old\n1\x1b")
    assert [str(task) for task in get_tasks_by_code("code")] == ["code old\n1\x1b"]
    assert cancel_task("code", "old\n1\x1b")
    assert resume_queue("a\x1bb") is False


@pytest.mark.django_db
def test_metrics_stay_on_their_lines(code: str) -> None:
    add("1")
    Rows.update(queue="q\n")
    assert b'queue="q\\n"' in pages.of_database("default")


@pytest.fixture
def lines() -> Any:
    logger, lines = logging.getLogger("tests.test_visible"), []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Kept()
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def test_a_line_of_the_log_is_one_line(lines: list[str]) -> None:
    log = Log("tests.test_visible")
    log.warning("%s: %s and %d: %s", Task(biz_code="c\x1b", biz_num="n\n2"), ValueError("a\nb\u202e"), 7, ["x\n"])
    assert lines == ["c\\u001b n\\n2: a\\nb\\u202e and 7: ['x\\n']"]


def test_a_traceback_has_no_line_of_an_errors_choosing(lines: list[str]) -> None:
    log = Log("tests.test_visible")
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            inner.add_note("a note\nFORGED note")
            raise ValueError("bad\nFORGED\x1b[2J\r") from inner
    except ValueError:
        log.exception("failed")
    [text] = lines
    assert "\x1b" not in text
    assert "\r" not in text
    assert "ValueError: bad\n    FORGED\\u001b[2J\\r" in text
    assert not [line for line in text.splitlines() if line.startswith("FORGED")]
    assert text.splitlines()[1] == "Traceback (most recent call last):"


def test_other_tracebacks_are_left_to_the_formatter(lines: list[str]) -> None:
    try:
        raise ValueError("plain")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "%s", ("a",), (ValueError, error, None))
    assert Log("tests.test_visible").logger.filter(record)
    assert (record.exc_text, record.args) == (None, ("a",))


def test_arguments_that_do_not_fit_are_left_to_the_handler() -> None:
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "%s %s", ("a\n",), None)
    assert Log("tests.test_visible").logger.filter(record)
    assert record.args == ("a\n",)
