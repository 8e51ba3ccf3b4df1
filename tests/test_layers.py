"""Imports in the package only go down, folders stay small, and no modules import each other (tests/layers.py)."""

from pathlib import Path

import pytest

from tests.layers import LAYERS, MOST_MODULES, TOPS, check_cycles, check_tops, unit_of, violations

PACKAGE = "django_delayed_tasks"
PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT / PACKAGE


def plant(folder: Path, files: dict[str, str]) -> list[str]:
    """Write a package of `files` and check it."""
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return violations(folder, PACKAGE)


def test_package_imports_only_downwards() -> None:
    assert (ROOT / "api.py").exists()
    assert violations(ROOT, PACKAGE) == []


def test_every_layer_is_one_of_something() -> None:
    places = [ROOT.joinpath(*unit.split(".")) for unit in LAYERS]
    assert [place for place in places if not place.is_dir() and not place.with_suffix(".py").exists()] == []


@pytest.mark.parametrize(
    ("module", "unit"),
    [
        ("models", "models"),
        ("store.sql.dialects.base", "store.sql"),
        ("store.claiming", "store.claiming"),
        ("admin.queues", "admin"),
        ("admin.tasks.list", "admin.tasks"),
        ("store", None),
        ("modelsnext", None),
    ],
)
def test_the_longest_name_counts(module: str, unit: str | None) -> None:
    assert unit_of(module) == unit


def floor(unit: str) -> str:
    """Return a unit with its layer, as the checker names it."""
    return f"{unit} (layer {LAYERS[unit]})"


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("models.py", "from django_delayed_tasks.api import add_task", floor("api")),
        ("models.py", "from django_delayed_tasks import api", floor("api")),
        ("models.py", "import django_delayed_tasks.api as facade", floor("api")),
        ("models.py", "from .executor.running.run import run", floor("executor.running")),
        ("models.py", "from .store import claiming", floor("store.claiming")),
        ("store/records/history.py", "from ...api import add_task", floor("api")),
        ("store/records/deep/history.py", "from ....leases import mutex", floor("leases")),
        ("handlers/base.py", "from ..store.claiming.claimed_task import ClaimedTask", floor("store.claiming")),
        ("handlers/base.py", "if TYPE_CHECKING:\n    from ..store.claiming import agenda", floor("store.claiming")),
        ("store/sql/tables.py", "from ...handlers.base import TaskHandler", "on the same layer"),
        ("store/schedules/add.py", "from ..claiming import agenda", "on the same layer"),
        ("store/schedules/add.py", "from ..resources import slots", "kept apart"),
        ("store/claiming/agenda.py", "from .. import validation", "kept apart"),
        ("executor/running/run.py", "from ..claiming.poller import Poller", floor("executor.claiming")),
        ("api.py", "from .executor.executor import Executor", "for executor.process only"),
        ("admin/lists/base.py", "from ..queues import QueueAdmin", floor("admin")),
        ("triggers/cron.py", "import django_delayed_tasks.store.sql.tables", floor("store.sql")),
        ("clock.py", "def now():\n    from .models import Task\n    return Task", floor("models")),
        ("clock.py", "try:\n    from .models import Task\nexcept ImportError:\n    pass", floor("models")),
        ("clock.py", "if TYPE_CHECKING:\n    from .models import Task", floor("models")),
        ("api.py", "if TYPE_CHECKING:\n    pass\nelse:\n    from .apps import X", floor("apps")),
        ("api.py", "if not TYPE_CHECKING:\n    from .apps import X", floor("apps")),
        ("clock.py", "from django_delayed_tasks import add_task", "add_task, which has no layer"),
        ("misc.py", "", "misc has no layer"),
        ("store/misc.py", "", "store.misc has no layer"),
        ("store/__init__.py", "from .validation import Schedule", "store has no layer"),
        ("models.py", "from .misc import helper", "misc.helper, which has no layer"),
        ("models.py", "from .store import settle", "store.settle, which has no layer"),
        ("__init__.py", "from .models import Task", "loaded lazily"),
        ("__init__.py", "if TYPE_CHECKING:\n    pass\nelse:\n    from .models import Task", "loaded lazily"),
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
        ("executor/process/foreground.py", "from ..executor import Executor\nfrom ...store.settling.reap import reap"),
        ("store/claiming/agenda.py", "from . import levels\nfrom .levels import Level\nfrom ...clock import now"),
        ("store/claiming/agenda.py", "from ..sql.dialects import dialect_of\nfrom ..records import progress"),
        ("store/__init__.py", '"""The rows."""'),
        ("handlers/base.py", "if TYPE_CHECKING:\n    from ..store.claiming.claimed_task import ClaimedTask"),
        ("api.py", "def start():\n    from .executor.process import in_process\n    in_process.start()"),
        ("apps.py", "from . import checks"),
        ("clock.py", "from django_delayed_tasks import __version__"),
        ("clock.py", "import datetime\nfrom django.db import models\nfrom .conf import setting"),
        ("__init__.py", "def __getattr__(name):\n    from . import api\n    return getattr(api, name)"),
        ("__init__.py", "if TYPE_CHECKING:\n    from .api import add_task"),
    ],
)
def test_checker_allows(tmp_path: Path, name: str, source: str) -> None:
    assert plant(tmp_path, {name: source}) == []


def test_a_folder_with_too_many_modules(tmp_path: Path) -> None:
    files = {f"leases/part{number}.py": "" for number in range(MOST_MODULES)}
    files |= {"leases/__init__.py": "", "leases/deep/more.py": ""}
    files |= {f"migrations/{number:04}.py": "" for number in range(MOST_MODULES + 1)}
    assert plant(tmp_path, files) == []
    [found] = plant(tmp_path, {"leases/one_more.py": ""})
    assert found == f"leases: has {MOST_MODULES + 1} modules; at most {MOST_MODULES} share a folder"


@pytest.mark.parametrize(
    ("back", "circle"),
    [
        ("from .a import x", "leases.a -> leases.b -> leases.a"),
        ("from . import a", "leases.a -> leases.b -> leases.a"),
        ("def late():\n    from .a import x", "leases.a -> leases.b -> leases.a"),
        ("if TYPE_CHECKING:\n    from .a import x", "leases.a -> leases.b -> leases.a"),
        ("import django_delayed_tasks.leases.a", "leases.a -> leases.b -> leases.a"),
        ("from .c import x", "leases.a -> leases.b -> leases.c -> leases.a"),
        ("from . import helper", "leases -> leases.a -> leases.b -> leases"),
    ],
)
def test_a_circle_of_modules(tmp_path: Path, back: str, circle: str) -> None:
    files = {"leases/__init__.py": "from .a import x", "leases/a.py": "from .b import y", "leases/b.py": back}
    [found] = plant(tmp_path, files | {"leases/c.py": "from .a import x"})
    assert found.endswith(f"a circle of imports: {circle}")


def test_modules_that_share_what_they_import_are_no_circle(tmp_path: Path) -> None:
    files = {"leases/a.py": "from . import b, c", "leases/b.py": "from . import d", "leases/c.py": "from . import d"}
    plant(tmp_path, files | {"leases/d.py": "from django_delayed_tasks import __version__", "__init__.py": ""})
    assert list(check_cycles(tmp_path, PACKAGE)) == []


def test_only_tests_import_tests_and_the_package_imports_none_of_the_others() -> None:
    assert [top for top in TOPS if not (PROJECT / top / "__init__.py").exists()] == []
    assert list(check_tops(PROJECT)) == []


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("harness/torture/child.py", "from tests.waiting import wait_until", "harness imports tests"),
        ("harness/torture/child.py", "def late():\n    import tests.waiting", "harness imports tests"),
        ("testproject/settings.py", "from harness import settings", "testproject imports harness"),
        ("django_delayed_tasks/api.py", "from testproject.shop import models", f"{PACKAGE} imports testproject"),
    ],
)
def test_a_folder_at_the_top_that_imports_one_above(tmp_path: Path, name: str, source: str, expected: str) -> None:
    allowed = {"harness/urls.py": "from testproject import wsgi", "tests/test_a.py": "from harness import settings"}
    plant(tmp_path, allowed | {name: source})
    [found] = check_tops(tmp_path)
    assert found.startswith(name)
    assert found.endswith(expected)
