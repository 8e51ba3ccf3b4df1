"""The model of ``harness/verification/`` speaks of the code that there is. Spin itself is run by ``make verify``."""

import re
from importlib import import_module

import pytest

from harness import ROOT
from harness.verification.mutants import MUTANTS, REDUNDANT
from harness.verification.sizes import FULL
from harness.verification.spin import MODEL, PROMISES, SpinError, verdict_of

STORE = (MODEL.parent / "store.pml").read_text()
LANES = (MODEL.parent / "lanes.pml").read_text()
README = (ROOT / "harness/verification/README.md").read_text()

OUTPUT = """
Full statespace search for:
State-vector 116 byte, depth reached 130, errors: 0
  4055749 states, stored
unreached in proctype process
\t/somewhere/tasks.pml:91, state 204, "-end-"
\t(1 of 204 states)
pan: elapsed time 13.6 seconds
"""
"""What the verifier says of a search that saw everything."""


def test_every_statement_of_the_model_is_one_of_the_store() -> None:
    named = re.findall(r"^/\* ([\w.]+)\.(\w+)", STORE, re.MULTILINE)
    modules = {module for module, _ in named}
    assert modules == {
        "schedules.add",
        "schedules.add_many",
        "schedules.verbs",
        "claiming.claimed_task",
        "claiming.compare_and_set",
        "settling.settle",
        "settling.reap",
        "executors",
    }
    for module, function in named:
        assert hasattr(import_module(f"django_delayed_tasks.store.{module}"), function), f"{module}.{function}"


def test_every_mutant_changes_the_model() -> None:
    for mutant in [*MUTANTS, REDUNDANT]:
        assert re.search(rf"#ifn?def {mutant.macro}\b", STORE + LANES), mutant.macro


def test_every_promise_is_asserted_and_told() -> None:
    asserted = "".join(file.read_text() for file in MODEL.parent.glob("*.pml"))
    for promise in list(PROMISES.values())[:4]:
        assert f"/* {promise}" in asserted
        assert promise.capitalize()[:-1] in README or promise in README


def test_the_readme_says_how_many_sizes_and_mutants_there_are() -> None:
    counts = re.findall(r"\| [\d,]{7,} \|$", README, re.MULTILINE)
    assert len(counts) == len(FULL)
    lengths = re.findall(r"^\| .* \| .* \| \d+ \|$", README, re.MULTILINE)
    assert len(lengths) == len(MUTANTS)


def test_a_search_that_saw_everything() -> None:
    verdict = verdict_of(OUTPUT)
    assert verdict.holds
    assert (verdict.states, verdict.depth, verdict.seconds, verdict.unreached) == (4_055_749, 130, 13.6, ())


def test_statements_that_were_never_executed_are_told() -> None:
    line = '\t/somewhere/store.pml:47, state 68, "losses = (losses-1)"\n'
    verdict = verdict_of(OUTPUT.replace("pan: ", f"{line}pan: "))
    assert verdict.unreached == ('store.pml:47, state 68, "losses = (losses-1)"',)


@pytest.mark.parametrize(
    "trouble",
    [
        "error: max search depth too small",
        "Warning: Search not completed",
        "pan: out of memory",
        "Bit statespace search for:",
        "State-vector 116 byte, depth reached 130, errors: 1",
    ],
)
def test_a_search_that_did_not_is_refused(trouble: str) -> None:
    lines = OUTPUT.splitlines()
    replaced = {"Bit": 1, "Sta": 2}.get(trouble[:3])
    if replaced is not None:
        lines[replaced] = trouble
    else:
        lines.append(trouble)
    with pytest.raises(SpinError, match="not exhaustive"):
        verdict_of("\n".join(lines))


def test_a_broken_promise_is_named() -> None:
    broken = "pan:1: assertion violated current[me] (at depth 52)\nWarning: Search not completed\n"
    verdict = verdict_of(broken + OUTPUT.replace("errors: 0", "errors: 1"))
    assert not verdict.holds
    assert verdict.violated == "no stale settlement"
