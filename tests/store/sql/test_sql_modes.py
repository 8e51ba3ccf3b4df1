"""Under each sql_mode of MariaDB and MySQL the verbs do the same, or the check refuses it."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import connection, transaction

from django_delayed_tasks import api, leases
from django_delayed_tasks.checks.servers import REFUSED_MODES
from django_delayed_tasks.models import Resource, Success, Task, TaskRun
from django_delayed_tasks.states import IfExists
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.triggers import Interval
from tests.complaints import numbers
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, HOUR

BOTH = [
    "", "ALLOW_INVALID_DATES", "ANSI", "ANSI_QUOTES", "ERROR_FOR_DIVISION_BY_ZERO", "HIGH_NOT_PRECEDENCE",
    "IGNORE_SPACE", "NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES", "NO_DIR_IN_CREATE", "NO_ENGINE_SUBSTITUTION",
    "NO_UNSIGNED_SUBTRACTION", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ONLY_FULL_GROUP_BY", "PAD_CHAR_TO_FULL_LENGTH",
    "PIPES_AS_CONCAT", "REAL_AS_FLOAT", "STRICT_ALL_TABLES", "TRADITIONAL",
]  # fmt: skip
MODES = {
    "mariadb": [
        *BOTH, "DB2", "MAXDB", "MSSQL", "MYSQL323", "MYSQL40", "ORACLE", "POSTGRESQL", "NO_AUTO_CREATE_USER",
        "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT",
        "TIME_ROUND_FRACTIONAL",
    ],
    "mysql": [*BOTH, "TIME_TRUNCATE_FRACTIONAL"],
}  # fmt: skip
REFUSED = {*REFUSED_MODES, "ORACLE"}
DATA = {"text": "a\\b'c\"d||e`é%s", "empty": "", "list": [1, 2.5, None]}


@pytest.fixture
def fresh(live_db: str) -> Iterator[None]:
    """A session that is closed afterwards, with what was set in it."""
    yield
    connection.close()


def all_modes(database: str) -> list[str]:
    """The modes that the server has; elsewhere the one without a name."""
    return MODES.get(database, [""])


def enter(mode: str) -> None:
    """Make it the mode of this session, with the strictness that Django asks for."""
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s", [f"STRICT_TRANS_TABLES,{mode}".strip(",")])


def add_all() -> list[str]:
    """Add in every way; return what became of each task."""
    did = []
    for mode in IfExists:
        if mode is IfExists.RAISE:
            continue
        for when in (HOUR, HOUR / 2, 2 * HOUR):
            did.append(f"{verbs.add(f'of {mode}', when, if_exists=mode, biz_ext=DATA).action}")
            api.add_tasks([verbs.task(f"many of {mode}", when, biz_ext=DATA), verbs.task("x", when)], if_exists=mode)
    did += [f"{api.add_task(verbs.task('once'), once=True).action}" for _ in range(2)]
    did.append(f"{api.add_tasks([verbs.task('once'), verbs.task('once 2')], once=True)}")
    verbs.add("recurs", HOUR, trigger=Interval(minutes=5))
    return did


def change_all() -> list[Any]:
    """Call every other verb."""
    did: list[Any] = [
        api.reschedule_task(CODE, "of keep", HOUR), api.pause_task(CODE, "of keep"), api.resume_task(CODE, "of keep"),
        api.pause_queue("mail"), api.resume_queue("mail"), str(api.cancel_task(CODE, "of keep")),
        api.delete_tasks(CODE, "of earliest"),
    ]  # fmt: skip
    leases.Pool("p").add("a", DATA)
    leases.Pool("p").add("a", [DATA])
    return did


def run_all() -> list[Any]:
    """Claims and their ends, with calls for running tasks; and what an executor that died leaves."""
    for num in ("done", "again", "retry", "failed", "stopped", "deferred", "released", "orphan"):
        verbs.add(num, biz_ext=DATA)
    runs = {run.biz_num: run for run in verbs.claim()}
    api.cancel_task(CODE, "stopped")
    verbs.add("deferred", HOUR, biz_ext=[DATA])
    ends = [
        verbs.done(runs["done"], result='"\\\\é"'), verbs.again(runs["again"], HOUR, [DATA]),
        verbs.retry(runs["retry"], error="a\\'é"), verbs.failed(runs["failed"]), verbs.retry(runs["stopped"]),
        verbs.done(runs["deferred"]), verbs.released(runs["released"]), verbs.done(runs["once"], once=True),
    ]  # fmt: skip
    became = sorted(str(then) for then in verbs.settle(*ends).values())
    has_data = [num for num, run in sorted(runs.items()) if run.biz_ext == DATA]
    return [sorted(runs), became, has_data, sorted(str(then) for then in reap(ALIAS, 3).values())]


def state() -> list[Any]:
    """Return the contents of the tables, without what depends on the moment."""
    tasks: Any = Task.objects.order_by("biz_num")
    fields = (
        "biz_num",
        "biz_ext",
        "status",
        "version",
        "attempts",
        "rescues",
        "last_error",
        "deferred_biz_ext",
        "once",
    )
    runs: Any = TaskRun.objects.order_by("biz_num", "id")
    return [
        list(tasks.values_list(*fields)), list(runs.values_list("biz_num", "outcome", "result", "error")),
        list(Success.objects.values_list("biz_num", flat=True)), list(Resource.objects.values_list("name", "payload")),
    ]  # fmt: skip


def everything() -> list[Any]:
    """Call all verbs, alone and within a transaction; return their results and the tables. Everything is undone."""
    found: list[Any] = []
    for block in (nullcontext(), transaction.atomic()):
        with block:
            found += [add_all(), change_all(), run_all(), state()]
        for model in (Task, TaskRun, Success, Resource):
            model._base_manager.all().delete()
    return found


@pytest.mark.usefixtures("fresh")
def test_each_does_the_same_or_is_refused(database: str) -> None:
    expected = everything()
    differing, refused = {}, set()
    for mode in all_modes(database):
        enter(mode)
        if "E009" in numbers(["default"]):
            refused.add(mode)
        elif (found := everything()) != expected:
            differing[mode] = found
    assert not differing
    assert refused == REFUSED.intersection(all_modes(database))
