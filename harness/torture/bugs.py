"""Bugs put in on purpose, to see that the harness finds them: into the executors, which learn of it by an environment
variable, or into the driver, which makes the API calls.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from django.db import connections

VARIABLE = "DDT_TORTURE_BUG"
STORE = "django_delayed_tasks.store"


def install() -> None:
    """The bug that the environment names, if this is an executor and the bug is one of executors."""
    if install_bug := IN_EXECUTORS.get(os.environ.get(VARIABLE, "")):
        install_bug()


def in_driver(name: str) -> AbstractContextManager[None]:
    """Meanwhile this process has the bug, if it is one of the driver."""
    return IN_DRIVER[name]() if name in IN_DRIVER else nullcontext()


def by_id(claims: Iterable[Sequence[int | None]], prefix: str = "") -> str:
    """A fence that looks at no version and at no executor."""
    ids = ", ".join(str(task_id) for task_id, *_ in claims)
    return f"({prefix}id IN ({ids}))" if ids else "(1 = 0)"


def settle_without_fence() -> None:
    """Let a run settle its task even if another executor holds the claim now."""
    settling: Any = import_module(f"{STORE}.settling.settle")
    usual = settling._lock

    def lock(cursor: Any, dialect: Any, claims: Any, *more: Any) -> Any:
        found = {task_id: flags for (task_id, *_), flags in usual(cursor, dialect, claims, *more).items()}
        return {claim: found[claim[0]] for claim in claims if claim[0] in found}

    settling.fence = by_id
    settling._lock = lock
    history: Any = import_module(f"{STORE}.records.history")
    history._same_claim = lambda dialect, of: f"t.id = {of['id']}"


def delete_without_looking() -> None:
    """The end of a run deletes its task, with the schedule that was deferred meanwhile."""
    settling: Any = import_module(f"{STORE}.settling.settle")
    usual = settling._lock

    def lock(*arguments: Any) -> Any:
        return {claim: met._replace(is_deferred=False) for claim, met in usual(*arguments).items()}

    settling._lock = lock


def effects_apart() -> None:
    """The effects of an atomic handler are committed before the settlement."""
    from harness.torture import handlers

    for handler in (handlers.Atomic, handlers.AtomicAgain, handlers.AtomicFlaky):
        handler.atomic = False
        handler.handle = _committed_apart(handler.handle)  # type: ignore[method-assign]


def _committed_apart(handle: Any) -> Any:
    from django.db import transaction

    def apart(self: Any, task: Any) -> Any:
        with transaction.atomic(using=task.alias):
            return handle(self, task)

    return apart


def claim_without_version() -> None:
    """A claim takes the row as it was read, whatever was written to it since."""
    compare_and_set: Any = import_module(f"{STORE}.claiming.compare_and_set")
    compare_and_set.fence = by_id
    compare_and_set.unclaimed = lambda tasks: by_id(task.claim for task in tasks)


def slots_for_all() -> None:
    """Grant every slot that is asked for."""
    permits: Any = import_module("django_delayed_tasks.executor.limits.permits")

    def with_slots(self: Any, tasks: dict[Any, str], most: int) -> Any:
        return permits.PermitDecision(tasks, list(tasks)[:most], {}, {}, {})

    permits.Permits._with_slots = with_slots


def dirty_threads() -> None:
    """Leave on connections what a run has left there, apart from open transactions."""
    kept: Any = import_module(f"{STORE}.sql.kept_connections")
    kept.is_as_new = lambda connection, wrappers: not kept.is_in_transaction(connection)


def mangled_text() -> None:
    """Convert all texts that an executor sends with its settlements to latin1."""
    base: Any = import_module(f"{STORE}.sql.dialects.base")
    usual = base.Dialect.by_column

    def by_column(self: Any, columns: Any, of_columns: Any) -> Any:
        return usual(self, columns, [[_in_latin1(one) for one in values] for values in of_columns])

    base.Dialect.by_column = by_column


def _in_latin1(value: Any) -> Any:
    return value.encode("latin1", "replace").decode("latin1") if isinstance(value, str) else value


def keep_read_only_sessions() -> None:
    """Keep a connection through which nothing can be written, as long as it answers."""
    kept: Any = import_module(f"{STORE}.sql.kept_connections")
    for module, name in (("mysql", "MySQL"), ("postgres", "PostgreSQL"), ("sqlite", "SQLite")):
        getattr(import_module(f"{STORE}.sql.dialects.{module}"), name).accepts_writes = lambda dialect: True
    for user in ("membership.lease", "threads.loop"):
        giving_up: Any = import_module(f"django_delayed_tasks.executor.{user}")
        giving_up.discard_after = lambda error, alias: kept.discard_unusable(connections[alias])


def start_unconnected() -> None:
    """Call handlers in threads that cannot connect."""
    kept: Any = import_module(f"{STORE}.sql.kept_connections")
    kept.failure_to_open = lambda alias: None


def stops_are_deaths() -> None:
    """Rescue what an executor that was stopped has left behind."""
    reaping: Any = import_module(f"{STORE}.settling.reap")
    reaping._settlement = lambda orphan, end, max_rescues, now: reaping._rescue(orphan, max_rescues, now)


def pauses_are_deaths() -> None:
    """Declare others dead as soon as their leases are over, whether or not the database takes writes."""
    lease: Any = import_module("django_delayed_tasks.executor.membership.lease")
    lease.Lease.is_steady = True


@contextmanager
def keep_of_stopping() -> Iterator[None]:
    """A "keep" keeps a task that is being stopped, of which nothing will be left."""
    from django_delayed_tasks import api
    from django_delayed_tasks.models import Task
    from django_delayed_tasks.outcomes import AddResult
    from django_delayed_tasks.states import AddAction, TaskStatus

    usual = api.add_task

    def add_task(task: Any, **options: Any) -> AddResult:
        same = Task.objects.filter(biz_code=task.biz_code, biz_num=task.biz_num, status=TaskStatus.RUNNING)
        stopping = same.filter(cancel_requested_at__isnull=False, deferred_when=None).first()
        if stopping and options.get("if_exists") == "keep":
            return AddResult(stopping.id, AddAction.KEPT)
        return usual(task, **options)

    api.add_task = add_task
    try:
        yield
    finally:
        api.add_task = usual


@contextmanager
def without_waiting() -> Iterator[None]:
    """A call decides by what its node shows, which may be behind the other nodes."""
    from django_delayed_tasks.store.sql.dialects.mysql import MySQL

    usual = MySQL.caught_up
    MySQL.caught_up = lambda self: nullcontext()  # type: ignore[method-assign]
    try:
        yield
    finally:
        MySQL.caught_up = usual  # type: ignore[method-assign]


@contextmanager
def asynchronous() -> Iterator[None]:
    """Patroni's leader answers a commit that no other node has."""
    from harness.servers.patroni import Cluster

    usual = Cluster.be_synchronous
    Cluster.be_synchronous = lambda self, is_synchronous: usual(self, False)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Cluster.be_synchronous = usual  # type: ignore[method-assign]


IN_EXECUTORS: dict[str, Callable[[], None]] = {
    "settle-without-fence": settle_without_fence,
    "delete-without-looking": delete_without_looking,
    "effects-apart": effects_apart,
    "claim-without-version": claim_without_version,
    "slots-for-all": slots_for_all,
    "mangled-text": mangled_text,
    "keep-read-only-sessions": keep_read_only_sessions,
    "start-unconnected": start_unconnected,
    "dirty-threads": dirty_threads,
    "stops-are-deaths": stops_are_deaths,
    "pauses-are-deaths": pauses_are_deaths,
}
IN_DRIVER: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "keep-of-stopping": keep_of_stopping,
    "without-waiting": without_waiting,
    "asynchronous": asynchronous,
}
BUGS = (*IN_EXECUTORS, *IN_DRIVER)
