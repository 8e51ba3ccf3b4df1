"""What has changed, and which of the checks and of the tests with programs from outside that leaves alone."""

import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

from harness import ROOT
from harness.suite.parts import is_within

PACKAGE = ("django_delayed_tasks", "pyproject.toml")
ALWAYS = ("harness/suite", "harness/scripts", "harness/servers", ".ci", "Makefile")
"""What each of them depends on."""
PAGES = ("docs", "*.md", "harness/site")
"""What the site is made of, besides the package's docstrings."""
CHROMIUM = (*PACKAGE, "testproject")
CLUSTER = (
    *(f"django_delayed_tasks/{folder}" for folder in ("backends/galera", "leases", "store")),
    *(f"harness/torture/{folder}" for folder in ("databases", "faults/nodes.py", "scenarios/nodes.py")),
    *(f"harness/torture/{module}.py" for module in ("clients", "clusters", "histories", "linearizability")),
    "tests/harness/torture/clustered.py",
)
"""What clusters under torture are about: statements, and what tells whether they were right."""
DEPENDS: Mapping[str, Collection[str]] = {
    "make verify": ("harness/verification",),
    "tests/groupreplication/test_nodes.py": (
        "django_delayed_tasks/checks/servers.py",
        "django_delayed_tasks/store",
        "django_delayed_tasks/backends",
        "tests/galera/nodes",
        "tests/groupreplication",
        "pyproject.toml",
    ),
    "tests/seekdb/test_promises.py": (
        "django_delayed_tasks/migrations",
        "django_delayed_tasks/store",
        "harness/engines",
        "pyproject.toml",
    ),
    "tests/harness/commands/test_matrix.py": ("noxfile.py", "pyproject.toml"),
    "tests/harness/torture/test_leader_of_patroni.py": CLUSTER,
    "tests/harness/torture/test_on_galera.py": CLUSTER,
    "tests/harness/torture/test_on_groupreplication.py": CLUSTER,
    "tests/harness/torture/test_on_patroni.py": CLUSTER,
    "tests/outside/test_browser.py": CHROMIUM,
    "tests/outside/test_clean_room.py": (*PACKAGE, *PAGES),
    "tests/outside/test_importbeat.py": PACKAGE,
    "tests/outside/test_importtasks.py": PACKAGE,
    "tests/outside/test_migrations.py": (*PACKAGE, *PAGES),
    "tests/outside/test_pictures.py": PACKAGE,
    "tests/outside/test_pictures_of_pages.py": (*CHROMIUM, "docs/images", "harness/pictures"),
    "tests/outside/test_site.py": (*PACKAGE, *PAGES),
    "tests/outside/test_site_in_browser.py": (*CHROMIUM, *PAGES),
    "tests/outside/test_site_search.py": (*PACKAGE, *PAGES),
    "tests/outside/test_wagtail.py": (*PACKAGE, *PAGES),
}
"""The model, and the files of tests that start clusters or need packages from outside, Chromium, a wheel, the built
site or another environment: what each depends on, besides itself, what `helps` tests, and `ALWAYS`."""


def unaffected() -> list[str]:
    """Return what of `DEPENDS` nothing which has changed can affect; in doubt, nothing."""
    changed = changed_files()
    if changed is None:
        return []
    return [tests for tests, places in DEPENDS.items() if not any(affects(path, tests, places) for path in changed)]


def affects(path: str, tests: str, places: Collection[str]) -> bool:
    """Return whether a changed file affects these tests; "*.md" stands for the pages in the project's folder."""
    is_page = "*.md" in places and "/" not in path and path.endswith(".md")
    return path == tests or is_page or is_within(path, [*places, *ALWAYS]) or helps(path, tests)


def helps(path: str, tests: str) -> bool:
    """Return whether a file may be of use to these tests: what tests share, and the modules of the harness itself.

    Those on clusters, which take long, share little, and name it.
    """
    of_tests = is_within(path, ["tests"]) and not Path(path).name.startswith("test_")
    is_shared = of_tests and DEPENDS[tests] is not CLUSTER
    return "/" in tests and (is_shared or (path.startswith("harness/") and path.count("/") == 1))


def changed_files() -> list[str] | None:
    """Return what differs from each parent, if HEAD is a merge, or from the last tag; None if there is neither.

    A landing is a merge, whose first parent is what main was. Whether a branch lands or brings main up to date cannot
    be seen: what differs from either is taken.
    """
    parents = _git("rev-parse", "--verify", "--quiet", "HEAD^2") and _git("rev-parse", "HEAD^@")
    bases = parents.split() or [tag for tag in [_git("describe", "--tags", "--abbrev=0")] if tag]
    if not bases:
        return None
    differing = [_git("diff", "--name-only", "--no-renames", "-z", base) for base in bases]
    new = _git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for paths in [*differing, new] for path in paths.split("\0") if path})


def _git(*words: str) -> str:
    """Return what git prints; "" if it fails or is not there."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
