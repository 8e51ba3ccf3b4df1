"""Under each setting of a session the verbs do the same, or E009 refuses it when an executor starts."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.checks.databases import by_an_executor
from django_delayed_tasks.models import Executor, Success, Task, TaskRun
from django_delayed_tasks.store.rehearsal import rehearse
from tests.complaints import PREFIX, found, numbers
from tests.store import verbs
from tests.store.sql.test_sql_modes import everything
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.per_database

ON_MYSQL_AND_MARIADB = {
    "sql_safe_updates = 1": True,
    "sql_big_selects = 0": False,
    "sql_select_limit = 1": True,
    "sql_select_limit = 1000": True,
    "max_join_size = 1": True,
    "completion_type = 'CHAIN'": False,
    "completion_type = 'RELEASE'": True,
    "unique_checks = 0": False,
    "foreign_key_checks = 0": False,
    "group_concat_max_len = 4": False,
    "max_sort_length = 64": False,
    "div_precision_increment = 0": False,
    "auto_increment_increment = 7": False,
    "sql_auto_is_null = 1": False,
    "time_zone = '+05:30'": False,
    "lc_time_names = 'de_DE'": False,
    "tmp_table_size = 1024": False,
    "max_heap_table_size = 16384": False,
    "character_set_results = NULL": False,
    "character_set_results = 'latin1'": True,
    "collation_connection = 'utf8mb4_general_ci'": False,
    "collation_connection = 'utf8mb4_bin'": False,
    "innodb_lock_wait_timeout = 1": False,
    "eq_range_index_dive_limit = 1": False,
    "default_week_format = 3": False,
    "optimizer_search_depth = 0": False,
    "low_priority_updates = 1": False,
    "sql_notes = 0": False,
    "sql_warnings = 1": False,
    "transaction_prealloc_size = 1024": False,
}
SETTINGS = {
    "sqlite": {
        "query_only = 1": True,
        "max_page_count = 1": False,
        "foreign_keys = 0": False,
        "defer_foreign_keys = 1": False,
        "recursive_triggers = 1": False,
        "case_sensitive_like = 1": False,
        "count_changes = 1": True,
        "short_column_names = 0": False,
        "full_column_names = 1": False,
        "empty_result_callbacks = 1": False,
        "reverse_unordered_selects = 1": False,
        "cell_size_check = 1": False,
        "ignore_check_constraints = 1": False,
        "legacy_alter_table = 1": False,
        "read_uncommitted = 1": False,
        "trusted_schema = 0": True,
        "writable_schema = 1": False,
        "temp_store = 2": False,
        "cache_size = 1": False,
        "cache_spill = 0": False,
        "synchronous = 0": False,
        "busy_timeout = 0": False,
        "secure_delete = 1": False,
        "automatic_index = 0": False,
        "threads = 4": False,
        "mmap_size = 0": False,
        "analysis_limit = 1": False,
        "journal_size_limit = 0": False,
        "wal_autocheckpoint = 1": False,
    },
    "mariadb": ON_MYSQL_AND_MARIADB
    | {
        "tx_read_only = 1": True,
        "max_statement_time = 30": False,
        "max_recursive_iterations = 1": False,
        "in_predicate_conversion_threshold = 2": False,
        "join_cache_level = 8": False,
        "use_stat_tables = 'NEVER'": False,
        "optimizer_switch = 'mrr=on,mrr_cost_based=off'": False,
        "old_mode = ''": False,
        "idle_transaction_timeout = 60": False,
        "sql_if_exists = 1": False,
        "system_versioning_alter_history = 'KEEP'": False,
    },
    "mysql": ON_MYSQL_AND_MARIADB
    | {
        "transaction_read_only = 1": True,
        "max_execution_time = 30000": False,
        "cte_max_recursion_depth = 1": False,
        "sql_require_primary_key = 1": False,
        "internal_tmp_mem_storage_engine = 'MEMORY'": False,
        "show_create_table_verbosity = 1": False,
        "windowing_use_high_precision = 0": False,
        "optimizer_switch = 'derived_merge=off'": False,
        "session_track_gtids = 'OWN_GTID'": False,
        "range_optimizer_max_mem_size = 1": False,
        "select_into_buffer_size = 8192": False,
        "explicit_defaults_for_timestamp = 0": False,
    },
    "postgres": {
        "default_transaction_read_only = on": True,
        "statement_timeout = '30s'": False,
        "lock_timeout = 1": False,
        "idle_in_transaction_session_timeout = '30s'": False,
        "array_nulls = off": True,
        "standard_conforming_strings = off": False,
        "backslash_quote = on": False,
        "escape_string_warning = on": False,
        "transform_null_equals = on": False,
        "bytea_output = 'escape'": False,
        "\"DateStyle\" = 'German, DMY'": True,
        "\"IntervalStyle\" = 'sql_standard'": False,
        "\"TimeZone\" = 'Asia/Kolkata'": True,
        "extra_float_digits = -15": False,
        "row_security = off": False,
        "session_replication_role = 'replica'": False,
        "search_path = 'pg_catalog'": True,
        "synchronous_commit = off": False,
        "default_transaction_isolation = 'serializable'": False,
        "default_transaction_isolation = 'repeatable read'": False,
        "default_transaction_deferrable = on": False,
        "enable_indexscan = off": False,
        "enable_seqscan = off": False,
        "enable_nestloop = off": False,
        "from_collapse_limit = 1": False,
        "join_collapse_limit = 1": False,
        "constraint_exclusion = on": False,
        "plan_cache_mode = 'force_generic_plan'": False,
        "jit_above_cost = 0": False,
        "work_mem = '64kB'": False,
        "temp_file_limit = 0": False,
        "client_min_messages = 'error'": False,
        "quote_all_identifiers = on": False,
        "xmloption = 'document'": False,
        "lc_messages = 'C'": False,
        "default_tablespace = ''": False,
        "check_function_bodies = off": False,
        "gin_fuzzy_search_limit = 1": False,
        "client_encoding = 'LATIN1'": False,
    },
}
"""By database: settings of a session, and whether a check refuses it."""
REFUSALS = {PREFIX + number for number in ("E009", "E022", "W025")}
"""An executor that finds no tables does not start, whatever the checks say."""


@pytest.fixture
def fresh(live_db: str) -> Iterator[None]:
    """A session that is closed afterwards, with what was set in it."""
    yield
    connection.close()


def enter(setting: str) -> None:
    """Begin a session with this setting."""
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA {setting}" if connection.vendor == "sqlite" else f"SET SESSION {setting}")


@pytest.mark.usefixtures("fresh")
def test_each_does_the_same_or_is_refused(database: str) -> None:
    expected = everything()
    differing, refused = {}, set()
    settings = SETTINGS[database]
    for setting in settings:
        enter(setting)
        if REFUSALS.intersection(message.id for message in found(["default"])):
            refused.add(setting)
        elif (did := everything()) != expected:
            differing[setting] = did
    assert not differing
    assert refused == {setting for setting, is_refused in settings.items() if is_refused}


TOO_SHORT = {
    "mariadb": "max_statement_time = 0.000001",
    "mysql": "max_execution_time = 1",
    "postgres": "statement_timeout = 1",
}


@pytest.mark.usefixtures("fresh")
def test_a_time_too_short_for_the_check_is_reported(database: str) -> None:
    """A fast server may answer in time: then nothing is said."""
    if database in TOO_SHORT:
        enter(TOO_SHORT[database])
        assert set(numbers(["default"])) <= {"E009"}


@pytest.mark.usefixtures("fresh")
def test_a_lock_of_another_session_is_no_setting() -> None:
    def refuse(*_: Any) -> None:
        raise OperationalError("database is locked")

    connection.ensure_connection()
    with connection.execute_wrapper(refuse):
        assert numbers(["default"]) == []


READ_ONLY = {
    "sqlite": ("query_only = 1", "query_only = 1"),
    "mariadb": ("tx_read_only = 1", "tx_read_only = ON"),
    "mysql": ("transaction_read_only = 1", "transaction_read_only = ON"),
    "postgres": (
        "default_transaction_read_only = on",
        "default_transaction_read_only = on, transaction_read_only = on",
    ),
}


@pytest.mark.usefixtures("fresh")
def test_the_hint_names_the_setting(database: str) -> None:
    setting, known = READ_ONLY[database]
    enter(setting)
    [message] = found(["default"])
    assert str(message.hint).startswith(f"The session has {known}. Remove that from DATABASES['default']['OPTIONS']")


@pytest.mark.usefixtures("fresh")
def test_an_executor_does_not_start(database: str) -> None:
    enter(READ_ONLY[database][0])
    with by_an_executor():
        assert numbers(["default"]) == ["E009"]


@pytest.mark.usefixtures("fresh")
def test_nothing_is_left(database: str) -> None:
    with CaptureQueriesContext(connection) as sent:
        assert rehearse(ALIAS) == ""
    assert len(sent) > 20
    for model in (Task, TaskRun, Success, Executor):
        assert not model._base_manager.exists()
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout")
            assert cursor.fetchone() == (1,), "the caller's session waits for locks as before"


def test_within_a_transaction(db: None) -> None:
    """As in a TestCase, whose own rows stay."""
    verbs.add("mine")
    assert rehearse(ALIAS) == ""
    assert [task.biz_num for task in Task.objects.all()] == ["mine"]
