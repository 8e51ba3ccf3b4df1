"""What knows no database is tested with SQLite only."""

from django.conf import settings

from tests.store.fixtures import any_code

__all__ = ["any_code"]

NO_DATABASE = [f"test_{name}.py" for name in ("figures", "goals", "plots", "report")]
collect_ignore = [] if settings.DDT_DATABASE == "sqlite" else NO_DATABASE
