"""What knows no database is tested with SQLite only."""

from django.conf import settings

from tests.store.fixtures import any_code

__all__ = ["any_code"]

collect_ignore = [] if settings.DDT_DATABASE == "sqlite" else ["test_figures.py", "test_goals.py", "test_report.py"]
