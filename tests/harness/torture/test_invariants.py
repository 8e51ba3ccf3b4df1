"""What adds promise, and texts: each invariant complains of a ledger that breaks it, and of no other."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.records.history import CUT_OFF as CUT_OFF_BY_A_STOP
from harness.torture.facts import Facts
from harness.torture.invariants import AT_THE_END, rescues_are_deaths, violations
from harness.torture.ledger import Call, Ledger, Row, Run, Seen
from harness.torture.tally import Tally
from harness.torture.texts import AS_TOLD, TEXTS, escaped, text_of, text_of_claim, unescaped

# Needs no database.
__test__ = settings.DDT_DATABASE == "sqlite"

AT = datetime(2026, 1, 1, tzinfo=UTC)
CODE, NUM, TASK = "t-plain", "one-\N{ROCKET}", 7


def call(sequence: int, verb: str, result: str, version: int | None, mode: str = "", **changed: Any) -> Call:
    is_add = verb == "add"
    made = Call(
        id=sequence, sequence=sequence, after=sequence - 1, verb=verb, mode=mode or ("replace" if is_add else ""),
        code=CODE, num=NUM, result=result, task_id=TASK, version=version, when=AT, nonce=sequence if is_add else None,
        at=AT,
    )  # fmt: skip
    return made._replace(**changed)


def seen(version: int, nonce: int, **changed: Any) -> Seen:
    made = Seen("effect", TASK, version, CODE, NUM, text_of(nonce), AT, nonce, 1, 1, True, AT)
    return made._replace(**changed)


def run(version: int, outcome: RunOutcome = RunOutcome.DONE, **changed: Any) -> Run:
    result = {"claim": version, "text": text_of_claim(TASK, version)} if outcome == RunOutcome.DONE else None
    made = Run(version, TASK, version, CODE, NUM, AT, outcome, AT, AT, 1, result, "")
    return made._replace(**changed)


def failed(version: int, nonce: int, error: str) -> Row:
    return Row(TASK, CODE, NUM, TaskStatus.FAILED, version, AT, AT, nonce, None, False, error, text_of(nonce))


def complaints(
    calls: Sequence[Call], runs: Sequence[Run] = (), effects: Sequence[Seen] = (), rows: Sequence[Row] = ()
) -> set[str]:
    """The invariants that are broken."""
    facts = Facts(Ledger(list(calls), list(effects), list(runs), list(rows), {}))
    return {violation.invariant for violation in violations(facts, AT_THE_END)}


ADDED = call(1, "add", "created", 0)
STOPPED = call(2, "cancel", "stopping", 1)
CUT_OFF = run(1, RunOutcome.CANCELLED)


def test_done() -> None:
    assert complaints([ADDED], [run(1)], [seen(1, 1)]) == set()


def test_no_row_of_what_was_accepted() -> None:
    assert complaints([call(1, "add", "created", None, task_id=None)]) == {"accepted_is_there"}


@pytest.mark.parametrize(("mode", "result"), [("keep", "kept"), ("raise", "exists"), ("earliest", "kept")])
def test_kept_what_is_being_stopped(mode: str, result: str) -> None:
    kept = call(3, "add", result, None, mode, task_id=None)
    assert complaints([ADDED, STOPPED, kept], [CUT_OFF], [seen(1, 1)]) == {"kept_remains"}


def test_kept_what_was_deferred_after_it_was_stopped() -> None:
    kept = call(4, "add", "kept", None, "keep", task_id=None)
    calls = [ADDED, STOPPED, call(3, "add", "deferred", 1), kept]
    assert complaints(calls, [CUT_OFF, run(2)], [seen(1, 1), seen(2, 3)]) == set()
    assert complaints(calls, [CUT_OFF], [seen(1, 1)]) == {"nothing_lost"}


def test_kept_while_the_stopping_call_had_no_answer_yet() -> None:
    kept = call(3, "add", "kept", None, "keep", task_id=None, after=1)
    assert complaints([ADDED, STOPPED, kept], [CUT_OFF], [seen(1, 1)]) == set()


def test_kept_what_a_call_at_the_same_time_may_have_deferred() -> None:
    kept = call(4, "add", "kept", None, "keep", task_id=None, after=2)
    calls = [ADDED, STOPPED, call(3, "add", "deferred", 1, after=2), kept]
    assert complaints(calls, [CUT_OFF, run(2)], [seen(1, 1), seen(2, 3)]) == set()


def test_filtered() -> None:
    filtered = call(2, "add", "filtered", None, "once", task_id=None)
    once, plain = [call(1, "add", "created", 0, "once"), filtered], [ADDED, filtered]
    assert complaints(once, [run(1)], [seen(1, 1)]) == set()
    assert complaints(plain, [run(1)], [seen(1, 1)]) == {"filtered_was_done"}


def test_done_twice() -> None:
    again = call(2, "add", "created", 0, "once", task_id=8)
    runs = [run(1), run(1, task_id=8, result=None)]
    effects = [seen(1, 1), seen(1, 2, task_id=8)]
    assert complaints([call(1, "add", "created", 0, "once"), again], runs, effects) == {"done_once"}
    assert complaints([ADDED, again], runs, effects) == set()


def test_deferred_once_is_dropped_by_a_run_that_does_it() -> None:
    deferred = call(2, "add", "deferred", 1, "once")
    assert complaints([call(1, "add", "created", 0, "once"), deferred], [run(1)], [seen(1, 1)]) == set()
    assert complaints([ADDED, deferred], [run(1)], [seen(1, 1)]) == {"nothing_lost"}


def test_identity_is_mangled() -> None:
    assert complaints([ADDED], [run(1, num="one-?")], [seen(1, 1)]) == {"identities_unchanged"}
    assert complaints([ADDED], [run(1)], [seen(1, 1, num="one-?")]) == {"identities_unchanged"}


def test_data_are_mangled() -> None:
    assert complaints([ADDED], [run(1)], [seen(1, 1, text="?")]) == {"data_unchanged"}


def test_result_is_mangled() -> None:
    assert complaints([ADDED], [run(1, result={"claim": 1, "text": "?"})], [seen(1, 1)]) == {"results_unchanged"}


def test_error_is_mangled() -> None:
    for error, broken in ((f"{AS_TOLD} {text_of_claim(TASK, 1)}", set()), (f"{AS_TOLD} ?", {"errors_unchanged"})):
        calls = [call(1, "add", "created", 0, code="t-failing")]
        row = failed(1, 1, error)._replace(code="t-failing")
        ended = run(1, RunOutcome.FAILED, code="t-failing", error=error)
        assert complaints(calls, [ended], [], [row]) == broken
        assert complaints(calls, [], [], [row]) == broken


def test_ledger_keeps_texts_in_ascii() -> None:
    for text in TEXTS:
        assert escaped(text).isascii()
        assert unescaped(escaped(text)) == text


class TestRescues:
    """Only an executor that a fault has killed, or cut off, may lose its tasks by a rescue."""

    rescue = run(1, RunOutcome.LOST, error="its executor died or lost its lease")

    def complaints(self, run: Run, tally: Tally | None) -> set[str]:
        found = Ledger([ADDED], [seen(2, 1)], [run, run._replace(version=2, outcome=RunOutcome.DONE)], [], {1: 4711})
        return {violation.invariant for violation in violations(Facts(found, tally), [rescues_are_deaths])}

    def test_of_one_that_nothing_has_killed(self) -> None:
        assert self.complaints(self.rescue, Tally()) == {"rescues_are_deaths"}
        assert self.complaints(self.rescue, None) == set(), "that is known at the end only"

    def test_of_one_that_was_killed(self) -> None:
        assert self.complaints(self.rescue, Tally(deaths=[(4711, AT)])) == set()

    def test_of_one_that_was_cut_off(self) -> None:
        assert self.complaints(self.rescue._replace(exception=CUT_OFF_BY_A_STOP), Tally()) == set()

    @pytest.mark.parametrize(("cuts_off", "wrong"), [(True, set()), (False, {"rescues_are_deaths"})])
    def test_after_a_fault_of_the_database(self, cuts_off: bool, wrong: set[str]) -> None:
        tally = Tally()
        tally.injected("any", AT - timedelta(seconds=5), cuts_off)
        assert self.complaints(self.rescue, tally) == wrong
        assert self.complaints(self.rescue._replace(finished=AT + timedelta(hours=1)), tally) == {"rescues_are_deaths"}
