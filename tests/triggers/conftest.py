"""Triggers know no database: their tests run with SQLite only."""

from django.conf import settings

collect_ignore_glob = [] if settings.DDT_DATABASE == "sqlite" else ["test_*.py"]
