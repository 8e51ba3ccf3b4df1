"""Settings that the tests and the torture share. DDT_DATABASE says which database: sqlite, mariadb, mysql or postgres.

The servers' addresses are in DATABASE_URL_MARIADB and so on, as ``python -m harness.servers`` sets them. The
test database has a name of its own in every process, so that several test runs can share a server.
"""

import atexit
import os
import tempfile
from pathlib import Path
from typing import Any

from harness.database_urls import parse
from harness.servers.folders import HeldFolder

DDT_DATABASE = os.environ.get("DDT_DATABASE", "sqlite")
DDT_DIALECT = os.environ.get("DDT_DIALECT", "")
"""The path of the dialect to use for the database in place of its own; see ``named_dialect.py``."""
TEST_NAME = os.environ.get("DDT_TEST_NAME", f"test_ddt_{os.getpid()}")


def sqlite_folder() -> Path:
    """A temporary folder that goes when this process ends (and not when a forked child does)."""
    folder, owner = HeldFolder("ddt-sqlite-", Path(tempfile.gettempdir())), os.getpid()
    atexit.register(lambda: folder.remove() if os.getpid() == owner else None)
    return folder.path


def default_database() -> dict[str, Any]:
    """The entry of DATABASES that the environment asks for."""
    url = os.environ.get(f"DATABASE_URL_{DDT_DATABASE.upper()}")
    if url is not None:
        entry = parse(url)
        entry["TEST"] = {"NAME": TEST_NAME if DDT_DATABASE != "sqlite" else f"{entry['NAME']}.test"}
        return entry
    if DDT_DATABASE != "sqlite":
        raise RuntimeError(
            f"DATABASE_URL_{DDT_DATABASE.upper()} is not set. Run `make test DATABASES={DDT_DATABASE}`, "
            f"or hold servers with `python -m harness.servers --databases {DDT_DATABASE} --hold`."
        )
    # A file, since an in-memory database cannot be shared by threads and processes.
    folder = sqlite_folder()
    return {**parse(f"sqlite:///{folder}/ddt.sqlite3"), "TEST": {"NAME": str(folder / "test.sqlite3")}}


SECRET_KEY = "only for tests"
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
DATABASES = {"default": default_database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
