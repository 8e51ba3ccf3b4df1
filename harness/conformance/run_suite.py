"""Runs one suite in this process: ``python -m harness.conformance.run_suite core /folder/of/its/tests``."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any
from unittest import TestSuite

from harness.conformance.suites import FAMILY, SUITES, Suite


def main(name: str, folder: str, *chosen: str) -> int:
    """Run the suite; the exit code is 1 if a test fails."""
    os.environ[FAMILY] = name
    os.environ["DJANGO_SETTINGS_MODULE"] = "harness.conformance.settings"
    sys.path.insert(0, str(Path(folder).parent))
    os.chdir(Path(folder).parent)  # discovery prefers a folder to a module, and this project has one of the same name
    import django

    django.setup()
    suite = SUITES[name]
    stand_in(suite)
    runner = runner_of(suite, folder, list(chosen))
    return 1 if runner.run_tests([Path(folder).name]) else 0


def stand_in(suite: Suite) -> None:
    """Put this package's backend in the place of those that the suite is written for."""
    import django.test

    from harness.conformance.stand_ins import Committing, Executed, Queued

    importlib.import_module(f"{suite.framework}.backends.dummy").DummyBackend = Queued  # type: ignore[attr-defined]
    importlib.import_module(f"{suite.framework}.backends.immediate").ImmediateBackend = Executed  # type: ignore[attr-defined]
    django.test.SimpleTestCase = Committing  # type: ignore[misc]


def runner_of(suite: Suite, folder: str, chosen: list[str]) -> Any:
    """Return a runner that leaves out what is not about this backend, and says so."""
    from django.test.runner import DiscoverRunner

    class Runner(DiscoverRunner):
        def build_suite(self, *args: Any, **kwargs: Any) -> TestSuite:
            tests = list(super().build_suite(*args, **kwargs))
            if not tests:
                raise SystemExit(f"no tests were found in {folder}")
            left = [test for test in tests if _name(test) in suite.left_out]
            for test in sorted(left, key=_name):
                print(f"left out: {_name(test)}: {suite.left_out[_name(test)]}")
            return TestSuite(test for test in tests if test not in left)

    return Runner(verbosity=1, interactive=False, test_name_patterns=chosen)


def _name(test: Any) -> str:
    module, _, method = test.id().split(".")[-3:]
    return f"{module}.{method}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
