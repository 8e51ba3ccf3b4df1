"""The suites, and those of their tests that are about the backends that they were written for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

FAMILY = "CONFORMANCE_FAMILY"
"""The variable of the environment that says which suite a process runs."""

_IN_MEMORY = "changes the object in the dummy backend's list in memory, and expects refresh() to return that"
_NO_RESULTS = "expects that the immediate backend keeps no results; this one does"
_NO_DEFER = "expects that the immediate backend refuses run_after; this one supports it"
_INTERRUPT = "expects KeyboardInterrupt of a function in the thread that enqueues; an executor records it as a failure"
_IN_TRANSACTION = "expects that a task has run before the transaction that enqueues it is committed"

_OWN_CLASSES = "compares classes of the backport's own immediate backend, which another backend stands in for"

DUMMY, IMMEDIATE = "test_dummy_backend", "test_immediate_backend"


@dataclass(frozen=True)
class Suite:
    """One suite.

    Attributes:
        package: the package that it tests, and whose version it must have.
        framework: the package with the framework's modules.
        folder: the folder of its tests in its sources, which is a package of this name.
        settings: the module of its settings, if it needs more than a database.
        left_out: the tests that are not run, by "module.test", with the reason.
        django: the version of Django to install, in an environment of its own; "" to use the one that is installed.
    """

    package: str
    framework: str
    folder: str
    settings: str | None
    left_out: Mapping[str, str]
    django: str = ""


_LEFT_OUT = {
    f"{DUMMY}.test_refresh_result": _IN_MEMORY,
    f"{DUMMY}.test_refresh_result_async": _IN_MEMORY,
    f"{IMMEDIATE}.test_cannot_get_result": _NO_RESULTS,
    f"{IMMEDIATE}.test_cannot_refresh_result": _NO_RESULTS,
    f"{IMMEDIATE}.test_cannot_pass_run_after": _NO_DEFER,
    f"{IMMEDIATE}.test_throws_keyboard_interrupt": _INTERRUPT,
    f"{IMMEDIATE}.test_doesnt_wait_until_transaction_commit_by_default": _IN_TRANSACTION,
}

_LEFT_OUT_OF_BACKPORT = {
    f"{IMMEDIATE}.test_get_result_from_different_request": _NO_RESULTS,
    "test_compat.test_uses_lib_tasks_by_default": _OWN_CLASSES,
    "test_compat.test_django_using_lib_backend": _OWN_CLASSES,
}

_BACKPORT = Suite("django-tasks", "django_tasks", "tests", "tests.settings", _LEFT_OUT | _LEFT_OUT_OF_BACKPORT)

SUITES: Mapping[str, Suite] = {
    "core": Suite("django", "django.tasks", "tests/tasks", None, _LEFT_OUT),
    "backport": _BACKPORT,
    "backport-5.2": replace(_BACKPORT, django="5.2"),
}
"""The backport is for Django 5.2, which has no ``django.tasks``; code that imports it runs on a later Django, too."""
