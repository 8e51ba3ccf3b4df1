"""Imports in the package only go down (the layers are in tests/layers.py)."""

from pathlib import Path

import pytest

from tests.layers import violations

PACKAGE = "django_delayed_tasks"
ROOT = Path(__file__).resolve().parent.parent / PACKAGE


def plant(folder: Path, files: dict[str, str]) -> list[str]:
    """Write a package of `files` and check it."""
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return violations(folder, PACKAGE)


def test_package_imports_only_downwards() -> None:
    assert (ROOT / "models.py").exists()
    assert violations(ROOT, PACKAGE) == []


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("models.py", "from django_delayed_tasks.api import add_task", "api (layer 5)"),
        ("models.py", "from django_delayed_tasks import api", "api (layer 5)"),
        ("models.py", "import django_delayed_tasks.api as facade", "api (layer 5)"),
        ("models.py", "from .executor.runner import run", "executor (layer 4)"),
        ("models.py", "from . import store", "store (layer 2)"),
        ("store/tasks.py", "from ..api import add_task", "api (layer 5)"),
        ("store/deep/tasks.py", "from ...leases import mutex", "leases (layer 3)"),
        ("store/tasks.py", "from ..handlers.base import TaskHandler", "beside it"),
        ("triggers/cron.py", "import django_delayed_tasks.store.tasks", "store (layer 2)"),
        ("clock.py", "def now():\n    from .models import Task\n    return Task", "models (layer 1)"),
        ("clock.py", "try:\n    from .models import Task\nexcept ImportError:\n    pass", "models (layer 1)"),
        ("api.py", "if TYPE_CHECKING:\n    pass\nelse:\n    from .apps import X", "apps (layer 6)"),
        ("api.py", "if not TYPE_CHECKING:\n    from .apps import X", "apps (layer 6)"),
        ("clock.py", "from django_delayed_tasks import add_task", "add_task, which has no layer"),
        ("misc.py", "", "misc has no layer"),
        ("models.py", "from .misc import helper", "misc, which has no layer"),
        ("__init__.py", "from .models import Task", "loaded lazily"),
    ],
)
def test_checker_finds(tmp_path: Path, name: str, source: str, expected: str) -> None:
    found = plant(tmp_path, {name: source})
    assert len(found) == 1
    assert found[0].startswith(name)
    assert expected in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "api.py",
            "from .executor.executor import Executor\nfrom .store import tasks\nfrom .models import Task",
        ),
        ("store/tasks.py", "from . import claiming\nfrom .claiming import claim\nfrom ..clock import now"),
        (
            "store/tasks.py",
            "if TYPE_CHECKING:\n    from ..api import add_task",
        ),
        ("apps.py", "from . import checks"),
        ("clock.py", "from django_delayed_tasks import __version__"),
        ("clock.py", "import datetime\nfrom django.db import models\nfrom .conf import setting"),
        (
            "__init__.py",
            "def __getattr__(name):\n    from . import api\n    return getattr(api, name)",
        ),
    ],
)
def test_checker_allows(tmp_path: Path, name: str, source: str) -> None:
    assert plant(tmp_path, {name: source}) == []
