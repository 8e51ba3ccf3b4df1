"""Checks that query the databases; they run when Django is told to check databases."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pkgutil import iter_modules
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.db import Error as DriverError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks import migrations
from django_delayed_tasks.checks.charsets import (
    charset_problems,
    configured_charset_problems,
    encoding_problems,
    file_problems,
    rows,
)
from django_delayed_tasks.checks.configuration import chosen, chosen_alias
from django_delayed_tasks.checks.options import line_for
from django_delayed_tasks.checks.servers import mode_problems, server_problems
from django_delayed_tasks.checks.sessions import refused, rehearsal_problems
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.handlers.validation import name_of
from django_delayed_tasks.models import Executor, Resource, Task
from django_delayed_tasks.store.sql.dialects import dialect_of, is_supported
from django_delayed_tasks.store.sql.tables import RESOURCE
from django_delayed_tasks.store.sql.transactions import is_transient
from django_delayed_tasks.support.durations import duration_text

LOWEST_VERSIONS = {"SQLite": (3, 37), "MariaDB": (10, 6), "MySQL": (8, 4), "PostgreSQL": (14,)}
"""By the name that Django shows; none is known of other databases, which speak like one of these."""
ISOLATION = "READ-COMMITTED"
MIGRATE = "Run `manage.py migrate` first: until then no task can be added, and no executor starts."
NOTHING_TO_MIGRATE = (
    "All migrations are recorded as applied, so `manage.py migrate` changes nothing: the tables were changed by other "
    "means, or a router (allow_migrate) or `--fake` left them out. If there are none of them: "
    "`manage.py migrate django_delayed_tasks zero --fake`, then `manage.py migrate django_delayed_tasks`, both with "
    "`--database {alias}`. If some are left, make them as the migrations do."
)
_is_starting: ContextVar[bool] = ContextVar("is_starting", default=False)


@contextmanager
def by_an_executor() -> Iterator[None]:
    """Leave the check of overdue tasks out in the block: an executor that is about to start runs the system checks."""
    token = _is_starting.set(True)
    try:
        yield
    finally:
        _is_starting.reset(token)


def is_by_an_executor() -> bool:
    """Return whether an executor that is about to start runs the checks."""
    return _is_starting.get()


def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Return E009, E012 to E014, E016, E021 to E023, W011 to W018, W021, W022, W025, W026, where tasks are held."""
    messages: list[CheckMessage] = []
    for alias in databases or ():
        connection = connections[alias]
        if not is_supported(connection):
            continue
        connection.ensure_connection()  # that there is none is another matter
        try:
            for message in _problems(alias, connection):  # what was found before an error is said
                messages.append(message)
        except DriverError as error:
            if not is_transient(error):
                messages.append(refused(alias, connection, f"{type(error).__name__}: {error}"))
            if not connection.is_usable():  # some settings end sessions
                connection.close()
                connection.ensure_connection()
    return messages


def _problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield the messages about one database, in which tasks may be held."""
    if alias == chosen_alias():
        yield from _problems_of_chosen(alias, connection)
    elif _tables_in(connection):
        yield from _described_problems(alias, connection)


def _problems_of_chosen(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield the messages about the database of the tasks."""
    is_serious = False
    for message in _described_problems(alias, connection):
        is_serious |= message.is_serious()
        yield message
    # Tables that have an error by now may not even be readable together.
    if is_serious:
        return
    if not _is_migrated(connection):
        yield from () if is_by_an_executor() else _unmigrated(alias, connection)
        return
    is_told = any(configured_charset_problems(alias, connection))  # by E022, without asking the database
    found = [] if is_told else list(rehearsal_problems(alias, connection))
    yield from found
    if not found and not is_by_an_executor():
        yield from overdue_problems(alias)


def _described_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    yield from _version_problems(alias, connection)
    yield from _vendor_problems(alias, connection)
    if alias == chosen_alias() and RESOURCE in _tables_in(connection):
        yield from pool_problems(alias)


def _unmigrated(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if sys.argv[1:2] != ["migrate"]:  # which runs the checks before it adds what is missing
        yield Warning(
            f"The database {alias!r} lacks tables or columns of django_delayed_tasks.",
            hint=MIGRATE if _has_unapplied(connection) else NOTHING_TO_MIGRATE.format(alias=alias),
            id="django_delayed_tasks.W025",
        )


def _has_unapplied(connection: BaseDatabaseWrapper) -> bool:
    """Return whether one of this app's migrations is not recorded as applied."""
    applied = MigrationRecorder(connection).applied_migrations()
    names = [module.name for module in iter_modules(migrations.__path__) if module.name[0].isdigit()]
    return any(("django_delayed_tasks", name) not in applied for name in names)


def _is_migrated(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the tables have all columns of this release; ``migrate`` runs the checks before it adds them."""
    models = list(apps.get_app_config("django_delayed_tasks").get_models())
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        if not {model._meta.db_table for model in models} <= set(tables):
            return False
        for model in models:
            columns = connection.introspection.get_table_description(cursor, model._meta.db_table)
            if not {field.column for field in model._meta.local_concrete_fields} <= {column.name for column in columns}:
                return False
    return True


def _tables_in(connection: BaseDatabaseWrapper) -> list[str]:
    ours = {model._meta.db_table for model in apps.get_app_config("django_delayed_tasks").get_models()}
    with connection.cursor() as cursor:
        return sorted(ours.intersection(connection.introspection.table_names(cursor)))


def _version_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    version = connection.get_database_version()
    lowest = LOWEST_VERSIONS.get(connection.display_name)
    if lowest and version < lowest:
        yield Error(
            f"The database {alias!r} is {connection.display_name} {_dotted(version)}.",
            hint=f"The lowest supported version is {_dotted(lowest)}.",
            id="django_delayed_tasks.E012",
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _vendor_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if problems := PROBLEMS.get(connection.vendor):
        yield from problems(alias, connection)
    yield from _claim_problems(alias, connection)


def _claim_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if chosen().CLAIM == "skip_locked" and dialect_of(connection).claiming != "skip_locked":
        yield Error(
            f"DELAYED_TASKS['CLAIM'] is 'skip_locked', and the database {alias!r} is {connection.display_name}.",
            hint="Only PostgreSQL claims with SKIP LOCKED, and does so by default. Remove CLAIM, or set it to 'auto'.",
            id="django_delayed_tasks.E016",
        )


def _isolation_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    # A server has one of the two, depending on its version; both are values of the session.
    names = "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')"
    found = {value for _, value in rows(connection, names)}
    if found != {ISOLATION}:
        yield Error(
            f"The database {alias!r} has the isolation level {', '.join(sorted(found))}.",
            hint="At this level even a poll that finds nothing blocks inserts. Remove isolation_level from "
            f"DATABASES[{alias!r}]['OPTIONS'] (Django's default is 'read committed').",
            id="django_delayed_tasks.E013",
        )


def _engine_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    transactional = "SELECT ENGINE FROM information_schema.ENGINES WHERE TRANSACTIONS = 'YES'"
    engines = "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
    good = {engine.upper() for (engine,) in rows(connection, transactional)}
    engine_of = dict(rows(connection, engines))
    for table in _tables_in(connection):
        if str(engine_of[table]).upper() not in good:
            yield Error(
                f"The table {table} in the database {alias!r} uses the engine {engine_of[table]}, "
                "which has no transactions.",
                hint=f"ALTER TABLE {table} ENGINE=InnoDB",
                id="django_delayed_tasks.E014",
            )


def _journal_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    ((mode,),) = rows(connection, "PRAGMA journal_mode")
    if mode not in ("wal", "memory"):
        yield Warning(
            f"The SQLite database {alias!r} has the journal mode {mode}.",
            hint="In WAL mode readers and the writer do not wait for each other. Add to the settings: "
            f"{line_for(alias, 'init_command', 'PRAGMA journal_mode=WAL')}",
            id="django_delayed_tasks.W011",
        )


def _problems_of_mysql(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if found := list(mode_problems(alias, connection)):  # with them, other answers may be wrong
        yield from found
        return
    for problems in (_isolation_problems, _engine_problems, server_problems, charset_problems):
        yield from problems(alias, connection)


def _problems_of_sqlite(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    yield from _journal_problems(alias, connection)
    yield from file_problems(alias, connection)


PROBLEMS: Mapping[str, Callable[[str, BaseDatabaseWrapper], Iterator[CheckMessage]]] = {
    "mysql": _problems_of_mysql,
    "postgresql": encoding_problems,
    "sqlite": _problems_of_sqlite,
}
"""By vendor: the checks of what its servers and files have to be like."""


def pool_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield W017 for each pool that is empty or disabled, with the handlers whose tasks wait for its resources.

    In a database without tasks nothing waits: that is a new one, such as each run of the tests makes.
    """
    handlers = defaultdict(list)
    for handler in get_task_handlers().values():
        if handler.pool:
            handlers[handler.pool].append(name_of(handler))
    if not handlers or not (is_by_an_executor() or _is_in_use(alias)):
        return
    resources = Resource.objects.using(alias).filter(pool__in=handlers)
    found = set(resources.values_list("pool", "enabled").distinct())
    for pool, names in handlers.items():
        if (pool, True) not in found:
            text = ngettext(
                "%(handler)s needs a resource of the pool %(pool)r, which is empty.",
                "%(handler)s need a resource of the pool %(pool)r, which is empty.",
                len(names),
            )
            hint = _("Its tasks wait until there is one: Pool(%r).add(...). Or is the name misspelled?")
            if (pool, False) in found:
                text = ngettext(
                    "%(handler)s needs a resource of the pool %(pool)r, whose resources are all disabled.",
                    "%(handler)s need a resource of the pool %(pool)r, whose resources are all disabled.",
                    len(names),
                )
                hint = _("Its tasks wait until one is enabled: Pool(%r).enable(...).")
            values = {"handler": ", ".join(names), "pool": pool}
            yield Warning(text % values, hint=hint % pool, id="django_delayed_tasks.W017")


def _is_in_use(alias: str) -> bool:
    return Task.objects.using(alias).exists() or Executor.objects.using(alias).exists()


def overdue_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield W018 for each queue whose tasks have been due for more than a minute without an executor that serves it."""
    # Imported here: an executor begins sooner without the statistics.
    from django_delayed_tasks.stats.backlogs import queues_of
    from django_delayed_tasks.stats.findings import VERY_LATE, served_name_like, tasks_text
    from django_delayed_tasks.stats.snapshot import take_snapshot

    seen = take_snapshot(alias)
    for queue in queues_of(seen):
        if queue.latency > VERY_LATE and not queue.served_by and not queue.paused_at:
            text = _(
                "In the database %(alias)r, no live executor serves the queue %(queue)r: %(tasks)s due, "
                "the first for %(time)s."
            )
            values = {"tasks": tasks_text(queue.due), "time": duration_text(queue.latency)}
            hint = _("Start one, `manage.py starttask`, or let one serve this queue: --queues, --exclude-queues.")
            if meant := served_name_like(seen, queue.name):
                hint = _("Did you mean the queue “%s”? Otherwise, start an executor that serves it.") % meant
            yield Warning(
                text % {"alias": alias, "queue": queue.name, **values},
                hint=hint,
                id="django_delayed_tasks.W018",
            )
