"""What a run came to: every result of ``handle`` and what follows from it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks import Done, Fail, Interval, Reschedule, Retry
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.running.deciding import RaisedError, decide
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.validation import MAX_MESSAGE, storable

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 5, 2, tzinfo=UTC)


class Handler(TaskHandler):
    biz_code = "code"
    max_attempts = 3

    def backoff(self, attempt: int) -> timedelta:
        return timedelta(seconds=10 * attempt)


def task_on_attempt(attempts: int, rescues: int = 0, **fields: Any) -> ClaimedTask:
    return ClaimedTask(7, 4, "code", "1", NOW, None, "default", 0, attempts, rescues, "default", **fields)


def decided(result: Any, attempts: int = 1, handler: TaskHandler | None = None) -> Settlement:
    return decide(task_on_attempt(attempts), handler or Handler(), result, NOW, NOW)


def test_none_is_done() -> None:
    settlement = decided(None)
    assert (settlement.outcome, settlement.then, settlement.claim) == (RunOutcome.DONE, NextState.GONE, (7, 4, 0))
    assert settlement.result is None


def test_done_keeps_its_result() -> None:
    assert decided(Done(result={"sum": 3})).result == '{"sum":3}'


@pytest.mark.parametrize("when", [LATER, timedelta(minutes=3)])
@pytest.mark.parametrize("wrap", [lambda when: when, Reschedule])
def test_a_time_is_a_reschedule(when: Any, wrap: Any) -> None:
    settlement = decided(wrap(when))
    assert (settlement.outcome, settlement.then, settlement.when) == (RunOutcome.RESCHEDULED, NextState.AGAIN, when)
    assert settlement.biz_ext is UNCHANGED


def test_a_time_that_has_passed_is_due_at_once() -> None:
    """As each time of a task that makes up for what it missed, one after the other."""
    finished = NOW + timedelta(days=3)
    later = NOW + timedelta(days=1)
    settlement = decide(task_on_attempt(1), Handler(), later, finished, finished)
    assert (settlement.when, settlement.after) == (later, timedelta())


@pytest.mark.parametrize(("late", "pause"), [(0.1, 0.1), (90, 90), (7200, 3600)])
@pytest.mark.parametrize("earlier", [0, 0.05])
def test_the_time_for_which_it_ran_is_not_due_at_once(
    late: float, pause: float, earlier: float, caplog: pytest.LogCaptureFixture
) -> None:
    """The task would run for ever, and many times a second."""
    when, finished = NOW - timedelta(seconds=earlier), NOW + timedelta(seconds=late - earlier)
    settlement = decide(task_on_attempt(1), Handler(), when, finished, finished)
    assert (settlement.outcome, settlement.then, settlement.when) == (RunOutcome.RESCHEDULED, NextState.AGAIN, when)
    assert when + (settlement.after or timedelta()) == finished + timedelta(seconds=pause)
    assert f"it waits for {pause:.1f} s" in caplog.text


@pytest.mark.parametrize("wrap", [lambda when: when, Reschedule])
def test_a_negative_timedelta_is_a_mistake(wrap: Any) -> None:
    settlement = decided(wrap(timedelta(seconds=-5)))
    assert (settlement.outcome, settlement.then) == (RunOutcome.FAILED, NextState.FAILED)
    assert "must not be negative" in settlement.error


@pytest.mark.parametrize(("given", "text"), [(None, None), ({"n": 1}, '{"n":1}'), (0, "0")])
def test_reschedule_hands_data_on(given: Any, text: str | None) -> None:
    assert decided(Reschedule(LATER, biz_ext=given)).biz_ext == text


def test_retry_waits_for_the_backoff_of_this_attempt() -> None:
    settlement = decided(Retry(reason="busy"), attempts=2)
    assert (settlement.outcome, settlement.then) == (RunOutcome.RETRIED, NextState.RETRY)
    assert (settlement.after, settlement.error) == (timedelta(seconds=20), "busy")


def test_retry_after_its_own_time() -> None:
    assert decided(Retry(after=timedelta(hours=2))).after == timedelta(hours=2)


@pytest.mark.parametrize("result", [Retry(reason="no"), RaisedError(ValueError("no"), "Traceback: no")])
def test_the_last_attempt_fails(result: Any) -> None:
    settlement = decided(result, attempts=3)
    assert (settlement.outcome, settlement.then) == (RunOutcome.FAILED, NextState.FAILED)
    assert "no" in settlement.error


def test_an_exception_is_retried_with_its_traceback() -> None:
    settlement = decided(RaisedError(ValueError("no"), "Traceback: no"))
    assert (settlement.then, settlement.after) == (NextState.RETRY, timedelta(seconds=10))
    assert settlement.error == "Traceback: no"


def test_fail_fails_at_once() -> None:
    settlement = decided(Fail("no such order"))
    assert (settlement.then, settlement.error) == (NextState.FAILED, "no such order")


@pytest.mark.parametrize(
    "result",
    [
        42,
        "done",
        True,
        object(),
        datetime(2026, 5, 2),  # noqa: DTZ001 (naive on purpose)
        Reschedule(None),  # type: ignore[arg-type]
        Reschedule("tomorrow"),  # type: ignore[arg-type]
        Reschedule(LATER, biz_ext=float("nan")),
        Retry(after=5),  # type: ignore[arg-type]
        Done(result={1, 2}),
        timedelta(days=400 * 365),
    ],
)
def test_anything_else_is_final_and_names_handler_and_value(result: Any) -> None:
    settlement = decided(result)
    assert (settlement.outcome, settlement.then) == (RunOutcome.FAILED, NextState.FAILED)
    assert "Handler (code) returned" in settlement.error
    assert repr(result)[:40] in settlement.error


@pytest.mark.parametrize(
    ("result", "meant"),
    [
        (True, "Done(result=...)"),
        ("done", "Done(result=...)"),
        ({"sum": 3}, "Done(result=...)"),
        ([1], "Done(result=...)"),
        (42, "Done(result=...), or timedelta(seconds=...)"),
        (False, "Retry(reason=...) or Fail(reason)"),
        (Done, "Done(...), an instance"),
        (ValueError("no"), "to raise it"),
    ],
)
def test_the_error_says_what_to_return_instead(result: Any, meant: str) -> None:
    assert decided(result).error.endswith(f"; did you mean {meant}?")


def test_a_naive_datetime_is_shown_once_and_so_is_what_to_return_instead() -> None:
    error = decided(datetime(2026, 5, 2)).error  # noqa: DTZ001
    assert error.count("datetime.datetime(2026, 5, 2, 0, 0)") == 1
    assert error.endswith("is naive; give it a time zone, as with timezone.make_aware(...), or use timezone.now()")


@pytest.mark.parametrize("result", [object(), Done(result={1, 2}), timedelta(days=400 * 365)])
def test_or_nothing_where_there_is_nothing_to_suggest(result: Any) -> None:
    assert "did you mean" not in decided(result).error


def test_a_wrong_result_of_a_recurring_task_costs_one_time() -> None:
    settlement = recurring(True)
    assert (settlement.outcome, settlement.then) == (RunOutcome.FAILED, NextState.RECUR)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (ZeroDivisionError("by zero"), "by zero"),
        (None, "None was returned: expected a timedelta"),
        (5, "5 was returned: expected a timedelta"),
    ],
)
def test_a_broken_backoff_costs_no_retry(broken: Any, why: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Handler):
        def backoff(self, attempt: int) -> timedelta:
            if isinstance(broken, Exception):
                raise broken
            return broken  # type: ignore[no-any-return]

    for result in (Retry(), RaisedError(KeyError(), "KeyError")):
        caplog.clear()
        settlement = decided(result, handler=Broken())
        assert settlement.then is NextState.RETRY
        assert timedelta(0) < settlement.after < timedelta(minutes=1)
        assert caplog.messages == [f"{Broken.biz_code}: its backoff failed, and the default pause is used: {why}"]


class Choosy(Handler):
    """Does not repeat what ended in a KeyError."""

    def backoff_after(self, task: ClaimedTask, exception: BaseException) -> timedelta | None:
        if isinstance(exception, TypeError):
            raise exception
        return None if isinstance(exception, KeyError) else timedelta(minutes=task.attempts)


def test_the_exception_decides_about_the_next_attempt() -> None:
    retried = decided(RaisedError(ValueError(), "ValueError"), attempts=2, handler=Choosy())
    assert (retried.outcome, retried.after) == (RunOutcome.RETRIED, timedelta(minutes=2))
    assert decided(RaisedError(ValueError(), "ValueError"), attempts=3, handler=Choosy()).then is NextState.FAILED
    final = decided(RaisedError(KeyError(), "KeyError"), handler=Choosy())
    assert (final.outcome, final.then, final.error) == (RunOutcome.FAILED, NextState.FAILED, "KeyError")
    assert decided(RaisedError(TypeError(), "TypeError"), handler=Choosy()).then is NextState.RETRY
    assert decided(Retry(), handler=Choosy()).after == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("keep_history", "kept"),
    [
        ("all", [True, True, True]),
        ("failures", [False, True, True]),
        ("none", [False, False, False]),
        (timedelta(days=1), [True, True, True]),
    ],
)
def test_history_is_kept_as_the_handler_says(keep_history: str | timedelta, kept: list[bool]) -> None:
    class Keeping(Handler):
        pass

    Keeping.keep_history = keep_history
    assert [decided(result, handler=Keeping()).keep for result in (None, Retry(), Fail())] == kept


def test_errors_become_storable() -> None:
    assert storable("a\0b\ud800c") == "a\N{REPLACEMENT CHARACTER}b\\ud800c"
    long = storable("x" * MAX_MESSAGE * 2 + "the end")
    assert len(long) < MAX_MESSAGE + 100
    assert long.endswith("the end")


def test_no_run_ends_before_it_began() -> None:
    """The clock may be set back meanwhile; the history is read by people."""
    settlement = decide(task_on_attempt(1), Handler(), None, NOW, NOW - timedelta(hours=1))
    assert (settlement.started, settlement.finished) == (NOW, NOW)


def lost(rescues: int) -> Settlement:
    """Return the settlement of a run that was told that its claim is gone."""
    task = task_on_attempt(1, rescues)
    return decide(task, Handler(), RaisedError(ClaimLost("gone"), "gone"), NOW, NOW)


def test_a_lost_claim_is_no_failed_attempt_and_the_longer_the_pause_the_more_there_were() -> None:
    pauses = [lost(rescues).after for rescues in range(3)]
    assert {lost(rescues).then for rescues in range(3)} == {NextState.RESCUED}
    assert timedelta() < pauses[0] < pauses[1] < pauses[2]


def recurring(result: Any, attempts: int = 1) -> Settlement:
    task = task_on_attempt(attempts, _trigger_text=str(Interval(hours=1, start=NOW)))
    return decide(task, Handler(), result, NOW, NOW)


@pytest.mark.parametrize(
    ("result", "attempts", "outcome"),
    [
        (None, 1, RunOutcome.DONE),
        (Done("x"), 1, RunOutcome.DONE),
        (Fail("no"), 1, RunOutcome.FAILED),
        (Retry(), 3, RunOutcome.FAILED),
    ],
)
def test_what_recurs_goes_to_its_next_time(result: Any, attempts: int, outcome: RunOutcome) -> None:
    settlement = recurring(result, attempts)
    assert (settlement.outcome, settlement.then) == (outcome, NextState.RECUR)
    assert (settlement.when, settlement.stood_for) == (NOW + timedelta(hours=1), NOW)


@pytest.mark.parametrize(("result", "then"), [(Retry(), NextState.RETRY), (Reschedule(LATER), NextState.AGAIN)])
def test_or_stays_with_this_one(result: Any, then: NextState) -> None:
    settlement = recurring(result)
    assert settlement.then is then
    assert settlement.stood_for == NOW


@pytest.mark.parametrize(
    ("result", "attempts", "is_remembered"),
    [
        (None, 1, True),
        (Done("x"), 1, True),
        (Fail("no"), 1, False),
        (Retry(), 1, False),
        (Retry(), 3, False),
        (LATER, 1, False),
    ],
)
def test_what_is_to_be_done_once_is_remembered_when_it_is_done(result: Any, attempts: int, is_remembered: bool) -> None:
    task = task_on_attempt(attempts, once=True)
    assert decide(task, Handler(), result, NOW, NOW).once is is_remembered
    assert decide(task_on_attempt(attempts), Handler(), result, NOW, NOW).once is False
