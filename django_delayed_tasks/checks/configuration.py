"""Checks of the settings, which need no database connection."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from django_delayed_tasks import conf
from django_delayed_tasks.checks.charsets import configured_charset_problems
from django_delayed_tasks.checks.options import line_for
from django_delayed_tasks.store.sql.dialects import dialect_of, is_supported

UTC_NAMES = (None, "UTC", "Etc/UTC")
SETTING = "DELAYED_TASKS"
HANDLERS = "TASK_HANDLERS"
BACKEND = "django_delayed_tasks.backends.tasks.DelayedTasksBackend"


def chosen_alias() -> str:
    """Return the alias of the database that keeps the tasks."""
    return chosen().DATABASE


def chosen() -> conf.Values:
    """Return the values of ``DELAYED_TASKS``, with the default for each that is unusable."""
    return conf.read(getattr(settings, "DELAYED_TASKS", {}))[0]


def check_settings(**_: Any) -> list[CheckMessage]:
    """Return E001 to E003 for all errors in ``DELAYED_TASKS``, E005 for ``USE_TZ``, E027 for ``TASKS``, and W027."""
    problems = conf.read(getattr(settings, "DELAYED_TASKS", {}))[1]
    messages: list[CheckMessage] = [_message(problem) for problem in problems]
    if not settings.USE_TZ:
        hint = "Set USE_TZ = True: without it, some local times are ambiguous and some do not exist."
        messages.append(Error("USE_TZ must be True.", hint=hint, id="django_delayed_tasks.E005"))
    return [*messages, *_misspelt_settings(), *_broken_backends()]


def _message(problem: conf.Problem) -> Error:
    if problem.kind == "unknown":
        return Error(f"DELAYED_TASKS has no key {problem.key!r}.", hint=problem.hint, id="django_delayed_tasks.E002")
    number = "E003" if problem.kind == "lease" else "E001"
    return Error(
        f"{problem.where}: {problem.problem}.",
        hint=problem.hint,
        id=f"django_delayed_tasks.{number}",
    )


def _misspelt_settings() -> Iterator[CheckMessage]:
    for name in dir(settings):
        if name.isupper() and name not in (SETTING, HANDLERS) and (meant := _meant_by(name)):
            yield Warning(
                f"There is no setting {name}: it has no effect.",
                hint=f"Did you mean {meant}?",
                id="django_delayed_tasks.W027",
            )


def _meant_by(name: str) -> str | None:
    bare = name.removeprefix("DJANGO_")
    key = bare.removeprefix(f"{SETTING}_")
    if key != bare and key in conf.READERS:
        return None if _is_given(key) else f"the key {key!r} of {SETTING}"  # what is given may be read from here
    if get_close_matches(SETTING, [name], cutoff=0.75) and isinstance(getattr(settings, name), Mapping):
        return SETTING
    # Closer than that: many settings are named after the handlers of something.
    if get_close_matches(HANDLERS, [bare.removeprefix("DELAYED_")], cutoff=0.85) and _has_texts(
        getattr(settings, name)
    ):
        return HANDLERS
    return None


def _is_given(key: str) -> bool:
    given = getattr(settings, SETTING, {})
    return isinstance(given, Mapping) and key in given


def _has_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, str) for one in value)


def _broken_backends() -> Iterator[CheckMessage]:
    given = getattr(settings, "TASKS", {})
    for alias, entry in given.items() if isinstance(given, Mapping) else ():
        path = str(entry.get("BACKEND") if isinstance(entry, Mapping) else "")
        if "delayed_tasks" not in path:
            continue
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f"TASKS[{alias!r}]['BACKEND'] cannot be imported: {error}.",
                hint=f"The backend of this app is {BACKEND!r}.",
                id="django_delayed_tasks.E027",
            )


def check_databases_configured(**_: Any) -> list[CheckMessage]:
    """Return E004, E008, E010, E011, E022, W010 and W019, for the configuration of the tasks' database."""
    alias = chosen_alias()
    if alias not in connections.settings:
        return [
            Error(
                f"DELAYED_TASKS['DATABASE']: there is no database {alias!r}.",
                hint=f"DATABASES has {', '.join(connections.settings)}.",
                id="django_delayed_tasks.E004",
            )
        ]
    return list(_configuration_problems(alias, connections[alias]))


def _configuration_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    zone = connection.settings_dict["TIME_ZONE"]
    if not connection.settings_dict["AUTOCOMMIT"]:
        yield Error(
            f"DATABASES[{alias!r}]['AUTOCOMMIT'] is False: no executor can work there.",
            hint="An executor's writes would not be committed. Remove AUTOCOMMIT, or give the tasks an alias of "
            "their own with autocommit (DELAYED_TASKS['DATABASE']).",
            id="django_delayed_tasks.E008",
        )
    if not is_supported(connection):
        yield Error(
            f"The database {alias!r} ({connection.display_name}) is not supported.",
            hint="Tasks are kept in SQLite, MariaDB, MySQL or PostgreSQL.",
            id="django_delayed_tasks.E010",
        )
        return
    dialect = dialect_of(connection)
    if not connection.features.supports_timezones and zone not in UTC_NAMES:
        yield Error(
            f"DATABASES[{alias!r}]['TIME_ZONE'] is {zone!r}; tasks need a database that stores UTC.",
            hint="Remove TIME_ZONE, or keep the tasks in another database (DELAYED_TASKS['DATABASE']).",
            id="django_delayed_tasks.E011",
        )
    yield from configured_charset_problems(alias, connection)
    if dialect.is_in_memory and not _is_of_test_runner(connection) and chosen().MODE != conf.INLINE:
        yield Warning(
            f"The database {alias!r} is an SQLite database in memory: no executor can be started on it.",
            hint="Its tasks would be gone with the process, and other processes and threads would not see them. Name a "
            f"file in DATABASES[{alias!r}]['NAME'].",
            id="django_delayed_tasks.W019",
        )
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode") or "DEFERRED").upper()
    if dialect.write_modes and mode not in dialect.write_modes:
        yield Warning(
            f"The SQLite database {alias!r} begins its transactions {mode}.",
            hint="A transaction that reads and then writes may fail with 'database is locked', regardless of the "
            f"timeout. Add to the settings: {line_for(alias, 'transaction_mode', 'IMMEDIATE')}",
            id="django_delayed_tasks.W010",
        )


def _is_of_test_runner(connection: BaseDatabaseWrapper) -> bool:
    # The checks of `manage.py test` run when it has put its own database, by default one in memory, in place of the
    # project's.
    return str(connection.settings_dict["NAME"]).startswith("file:memorydb_")
