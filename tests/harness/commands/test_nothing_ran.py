"""A check that ran nothing fails."""

from dataclasses import replace
from typing import Any

import pytest

from harness.conformance import __main__ as conformance
from harness.conformance.suites import SUITES
from tests.harness.making import make


@pytest.mark.parametrize(
    ("target", "variables"),
    [
        ("bench", {"BENCH": "add --databases sqlite --smallest --repeats 0 --json /dev/null"}),
        ("mutants", {"MUTANTS": "outcomes.py --only no/such/change"}),
        ("matrix", {"CELLS": "python3.13-django0.96"}),
        ("torture", {"TORTURE": "--databases sqlite --scenario no-scenario"}),
    ],
)
def test_a_command_without_anything_to_run(target: str, variables: dict[str, Any]) -> None:
    assert make(target, **variables).returncode != 0


def test_no_test_with_these_words() -> None:
    assert make("test", DATABASES="sqlite", PYTEST="tests/test_conf.py -k no_such_test").returncode != 0


def test_conformance_without_its_framework(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(conformance, "SUITES", {"core": replace(SUITES["core"], framework="no_such_framework")})
    monkeypatch.setattr("sys.argv", ["conformance", "--suites", "core"])
    assert conformance.main() == 1
    assert "no_such_framework is not installed" in capsys.readouterr().out
