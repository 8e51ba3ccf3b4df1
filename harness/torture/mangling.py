"""Invariants of texts: what comes back from the database is what was given to it, character by character."""

from collections.abc import Iterator

from harness.torture.facts import Facts, named
from harness.torture.ledger import Row, Run, Seen
from harness.torture.texts import AS_TOLD, escaped, text_of, text_of_claim


def identities_unchanged(facts: Facts) -> Iterator[str]:
    """Runs, history and rows have the identity that was accepted."""
    accepted = {call.task_id: (call.code, call.num) for call in facts.ledger.calls if call.task_id is not None}
    found: list[Seen | Run | Row] = [*facts.ledger.seen, *facts.ledger.runs, *facts.ledger.rows]
    for one in found:
        identity = accepted.get(one.task_id)
        if identity and identity != (one.code, one.num):
            yield f"{named(one)}: accepted as {' '.join(map(escaped, identity))}"


def data_unchanged(facts: Facts) -> Iterator[str]:
    """A run, and a row that is still there, have the text that their data was given."""
    found: list[Seen | Row] = [*facts.ledger.seen, *facts.ledger.rows]
    for one in found:
        if one.nonce and one.text != text_of(one.nonce):
            yield f"{named(one)}: data of call {one.nonce} has {escaped(one.text)}, not {escaped(text_of(one.nonce))}"


def results_unchanged(facts: Facts) -> Iterator[str]:
    """The history has the text that the run's result had."""
    for run in facts.ledger.runs:
        if isinstance(run.result, dict) and "claim" in run.result:
            expected = text_of_claim(run.task_id, run.result["claim"])
            if run.result.get("text") != expected:
                yield f"{named(run)}: the result has {escaped(str(run.result.get('text')))}, not {escaped(expected)}"


def errors_unchanged(facts: Facts) -> Iterator[str]:
    """The history, and a row that has FAILED, have the text that the run's error had."""
    found: list[Run | Row] = [*facts.ledger.runs, *facts.failed]
    for one in found:
        expected = f"{AS_TOLD} {text_of_claim(one.task_id, one.version)}"
        if AS_TOLD in one.error and expected not in one.error:
            told = one.error[one.error.rindex(AS_TOLD) :]
            yield f"{named(one)}: the error has {escaped(told)}, not {escaped(expected)}"
