"""The matrix: tests on SQLite over every Python and Django supported, and one cell on PostgreSQL 18.

``make matrix``, or ``python -m nox --session NAME`` for one cell (``--list`` names them), with options of pytest
after ``--``. A Python that is not on this machine is a cell that nox names as skipped.
"""

import subprocess
from functools import cache
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
FIND = ROOT / "harness/scripts/find_python.sh"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
DJANGOS = ("5.2", "6.0", "6.1")
NO_CELLS = (("3.11", "6.0"), ("3.11", "6.1"))  # which Django does not support
ON_POSTGRES = ("3.13", "6.1")

# What is the same on every version: the torture, what looks at the source or at other programs, and of what takes long
# that of which a cell has enough without it.
LEFT_OUT = (
    "tests/examples",
    "tests/galera",
    "tests/groupreplication",
    "tests/seekdb",
    "tests/harness",
    "tests/outside/test_site.py",
    "tests/outside/test_site_in_browser.py",
    "tests/docs",
    "tests/test_docs_followed.py",
    "tests/test_typing.py",
    "tests/fuzz",
    "tests/admin/test_cost.py",
    "tests/admin/test_hostile.py",
    "tests/admin/test_hostile_addresses.py",
    "tests/leases/test_contention.py",
    "tests/processes/test_deadly.py",
    "tests/processes/test_draining.py",
    "tests/processes/test_limits.py",
    "tests/processes/test_outage.py",
    "tests/processes/test_paused.py",
    "tests/processes/test_prefetched.py",
    "tests/recurring/ticking",
    "tests/store/test_model.py",
)
ENGINE = ("tests/store", "tests/executor", "tests/races")

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"


@cache
def find_python(version: str) -> str:
    """The path of this Python; without one the version, which nox then says it has not found."""
    found = subprocess.run([FIND, version], capture_output=True, text=True).stdout.strip()
    return found or version


def install(session: nox.Session, django: str, extras: str) -> None:
    session.install("--quiet", "--disable-pip-version-check", "--editable", f".[{extras}]", f"Django=={django}.*")


def add_cell(python: str, django: str) -> None:
    """One cell on SQLite."""

    @nox.session(name=f"python{python}-django{django}", python=find_python(python), download_python="never")
    def on_sqlite(session: nox.Session) -> None:
        install(session, django, "test")
        left_out = [f"--ignore={path}" for path in LEFT_OUT]
        options = session.posargs or ["--quiet", *left_out]
        session.run("python", "-m", "pytest", "-p", "no:cacheprovider", *options, env={"DDT_DATABASE": "sqlite"})


for python in PYTHONS:
    for django in DJANGOS:
        if (python, django) not in NO_CELLS:
            add_cell(python, django)


@nox.session(name="postgres18", python=find_python(ON_POSTGRES[0]), download_python="never")
def on_postgres(session: nox.Session) -> None:
    """What claims, settles and races, on PostgreSQL 18."""
    install(session, ON_POSTGRES[1], "test,postgres")
    session.install("--quiet", "--disable-pip-version-check", "psycopg[binary,pool]")
    # The part before "--" starts the server, and names its address in the environment of what comes after.
    servers = ["python", "-m", "harness.servers", "--databases", "postgres18", "--"]
    options = session.posargs or ["--quiet", *ENGINE]
    tests = ["python", "-m", "pytest", "-p", "no:cacheprovider", *options]
    session.run(*servers, *tests, env={"DDT_DATABASE": "postgres"})
