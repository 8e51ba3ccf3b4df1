"""What the suite consists of, and which tests run on which database.

What has no SQL of its own runs once, on SQLite. A test whose outcome can differ by database has the mark
``per_database``, or is in a folder whose subject is SQL (`PER_DATABASE`): it runs on each. ``make test-all`` runs the
rest on each database, too.
"""

from collections.abc import Collection, Iterable

from harness import ROOT

DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
SELECTION = "DDT_SELECTION"
"""The variable of the environment that says which tests a process of pytest runs: those of a `LANDING`, the `REST`, or
`ALL` that it is given, as without it."""
LANDING, REST, ALL = "landing", "rest", ""

PER_DATABASE = (
    "tests/store",
    "tests/races",
    "tests/charsets",
    "tests/executor/claiming",
    "tests/executor/limits",
    "tests/galera/test_recognising.py",
    "tests/harness/servers/test_environment.py",
    "tests/pgbouncer",
    "tests/recurring",
)
"""Folders and files whose subject is SQL, or a server."""

ON_MYSQL = (
    *(f"tests/charsets/test_{name}.py" for name in ("connections", "identities")),
    "tests/executor/claiming",
    "tests/executor/settling",
    "tests/groupreplication",
    "tests/harness/servers/test_environment.py",
    "tests/seekdb",
    "tests/store/claiming",
    "tests/store/notices",
    "tests/store/resources",
    "tests/store/settling",
    "tests/store/sql",
    "tests/store/test_sent_rows.py",
)
"""What of it MySQL runs beside MariaDB, whose statements are the same down to the dialect."""

ONLY_ON = {
    "tests/charsets/test_connections.py": ("mariadb", "mysql"),
    "tests/charsets/test_migrating.py": ("mariadb", "mysql"),
    "tests/charsets/test_narrow.py": ("postgres",),
    "tests/charsets/test_postgres.py": ("postgres",),
    "tests/charsets/test_sqlite.py": ("sqlite",),
    "tests/examples/test_cluster_jobs.py": ("sqlite",),
    "tests/examples/test_file_nodes.py": ("sqlite",),
    "tests/galera/nodes": ("galera",),  # which test_nodes.py starts
    "tests/galera/nodes/test_claims.py": ("galera", "groupreplication"),
    "tests/galera/nodes/test_through_changing_nodes.py": ("galera", "groupreplication"),
    "tests/galera/test_costs.py": ("mariadb",),
    "tests/galera/test_leases.py": ("mariadb",),
    "tests/galera/test_nodes.py": ("mariadb",),
    "tests/galera/test_torture.py": ("mariadb",),
    "tests/groupreplication/nodes": ("groupreplication",),  # which test_nodes.py starts
    "tests/groupreplication/single": ("groupreplication",),
    "tests/groupreplication/test_nodes.py": ("mysql",),
    "tests/harness/commands/test_bench.py": ("mariadb",),
    "tests/harness/torture/test_harness.py": ("postgres",),
    "tests/harness/torture/test_leader_of_patroni.py": ("postgres",),
    "tests/harness/torture/test_of_sqlite.py": ("sqlite",),
    "tests/leases/test_pools.py": ("postgres",),
    "tests/pgbouncer": ("postgres",),
    "tests/processes/test_pools.py": ("postgres",),
    "tests/races/test_claim_of_changed_rows.py": ("postgres",),
    "tests/seekdb/test_promises.py": ("mysql",),
    "tests/store/sql/test_like_postgres.py": ("postgres",),
}
"""What can run on some databases only."""

PROMISES = (
    "tests/api/test_bulk.py",
    "tests/api/test_changing_many.py",
    "tests/api/test_finding.py",
    "tests/api/test_identity.py",
    "tests/api/test_times.py",
    "tests/executor/limits/test_whole_executor.py",
    "tests/executor/test_executor.py",
    "tests/leases/test_mutex.py",
    "tests/store/claiming/test_order.py",
    "tests/store/settling",
    "tests/store/sql/test_sent_moments.py",
    "tests/store/test_sent_rows.py",
)
"""Tests of what the library promises on any database, which ask for nothing that some do in another way."""

ALONE = (
    "tests/leases/test_contention.py",
    "tests/store/claiming/test_old_snapshots.py",
    "tests/recurring/test_once_cost.py",
    "tests/executor/settling/test_settler.py",
)
"""Tests that measure the work of a whole server, or change its settings: nothing else may use it at the same time."""

FAULTS, GALERA, PROOFS, CLUSTERS = "faults", "galera", "proofs", "clusters"
TURNS = ((FAULTS, "mariadb"), (FAULTS, "postgres"), (GALERA, "mariadb"), (PROOFS, "postgres"))
"""Parts that kill executors and servers, of which a landing runs one, on its server; see `turn_of_commit`."""
SCENARIOS = "tests/harness/torture/test_scenarios.py"
"""What of the faults a landing leaves out on SQLite, which is no server: one turn has it."""
PARTS: dict[str, tuple[str, ...]] = {
    FAULTS: (
        SCENARIOS,
        "tests/harness/torture/test_of_sqlite.py",
        "tests/recurring/ticking",
    ),
    GALERA: tuple(f"tests/galera/test_{name}.py" for name in ("costs", "leases", "nodes", "torture")),
    "groupreplication": ("tests/groupreplication",),
    "seekdb": ("tests/seekdb",),
    PROOFS: tuple(f"tests/harness/torture/test_{name}.py" for name in ("harness", "leader_of_patroni")),
    CLUSTERS: tuple(f"tests/harness/torture/test_on_{name}.py" for name in ("galera", "groupreplication", "patroni")),
    "bench": ("tests/harness/commands/test_bench.py",),
    "commands": ("tests/harness/commands", "tests/test_docs_followed.py"),
    "processes": ("tests/processes",),
    "examples": ("tests/examples",),
    "leases": ("tests/leases",),
    "pages": ("tests/admin", "tests/shop", "tests/fuzz"),
    "races": ("tests/races", "tests/recurring"),
    "executor": ("tests/executor",),
    "browser": ("tests/outside/test_browser.py",),
    "site": (
        "tests/outside/test_site.py",
        "tests/outside/test_site_in_browser.py",
        "tests/outside/test_site_search.py",
    ),
    "outside": ("tests/outside",),
    "scripts": (
        "tests/harness/scripts",
        "tests/harness/suite",
        "tests/harness/verification",
        "tests/triggers",
        "tests/test_typing.py",
    ),
    "store": ("tests/store", "tests/api", "tests/charsets"),
    "all else": ("tests",),
}
"""What each part of the suite runs."""
OWN_SERVERS = ("groupreplication", "seekdb", CLUSTERS)
"""Parts that start servers of a kind which `DATABASES` does not have."""
NOT_QUICK = (FAULTS, GALERA, *OWN_SERVERS, PROOFS, "bench", "commands", "browser", "site", "outside")
"""With SQLite alone a developer waits for the answer."""
ONCE = (*NOT_QUICK, "scripts")
"""Parts of which nothing is run a second time: their tests look at programs, or bring their own databases."""

JOINED = {
    "mariadb": {"processes": "all else", "examples": "all else"},
    "postgres": {"processes": "all else", "examples": "all else"},
    "mysql": {"executor": "store", "all else": "store"},
}
"""Parts of which a landing runs little on a server, and the part whose process runs that: a process takes some seconds
before its first test."""


def is_within(path: str, places: Collection[str]) -> bool:
    """Return whether `path`, relative to the project's folder, is one of `places` or in one of them."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def part_of(path: str) -> str:
    """Return the name of the part that runs this file: the one that names it, or the nearest folder, most exactly."""
    matches = {place: name for name, places in PARTS.items() for place in places if is_within(path, [place])}
    return matches[max(matches, key=len)]


def files_of_tests() -> list[str]:
    """Return the paths of all files of tests."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def can_differ(path: str) -> bool:
    """Return whether a file has tests that can differ by database."""
    return is_within(path, (*PER_DATABASE, *ONLY_ON)) or "mark.per_database" in (ROOT / path).read_text()


STANDS_FOR = {"seekdb": "mysql"}
"""Databases on which another test runs some files, and the one of `DATABASES` whose statements they get."""


def can_run(path: str, database: str) -> bool:
    """Return whether a file's tests can run on a database: the most exact line of `ONLY_ON` decides."""
    database = STANDS_FOR.get(database, database)
    places = [place for place in ONLY_ON if is_within(path, [place])]
    return database in ONLY_ON[max(places, key=len)] if places else database in DATABASES


def runs_on(path: str, database: str) -> bool:
    """Return whether a landing runs (some of) a file's tests on this database."""
    if not can_run(path, database):
        return False
    if database == "sqlite":
        return True
    return can_differ(path) and (database != "mysql" or is_within(path, ON_MYSQL))


def is_rest(path: str, database: str) -> bool:
    """Return whether a file has tests that only ``make test-all`` runs on this database."""
    whole = is_within(path, PER_DATABASE) and runs_on(path, database)
    return database != "sqlite" and can_run(path, database) and not whole and part_of(path) not in ONCE


def by_part(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return these files of tests by the part that runs them; those that run alone are of none."""
    parts: dict[str, list[str]] = {name: [] for name in PARTS}
    for path in paths:
        if path not in ALONE:
            parts[part_of(path)].append(path)
    return {name: files for name, files in parts.items() if files}
