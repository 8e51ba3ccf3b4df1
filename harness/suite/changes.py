"""What has changed, and which of the checks and of the tests with programs from outside that leaves alone."""

import subprocess
from collections.abc import Collection, Mapping

from harness import ROOT
from harness.suite.parts import is_within

PACKAGE = ("django_delayed_tasks", "pyproject.toml")
ALWAYS = ("harness/suite", "harness/scripts", "tests/conftest.py", "tests/outside", ".ci", "Makefile")
"""What each of them depends on."""
PAGES = ("docs", "*.md", "harness/site")
"""What the site is made of, besides the package's docstrings."""
DEPENDS: Mapping[str, Collection[str]] = {
    "make verify": ("harness/verification",),
    "tests/harness/commands/test_matrix.py": ("noxfile.py", "pyproject.toml"),
    "tests/outside/test_browser.py": (*PACKAGE, "harness/browser.py", "testproject", "tests/admin"),
    "tests/outside/test_clean_room.py": (*PACKAGE, "docs/how-to/test-your-handlers.md", "tests/newcomer.py"),
    "tests/outside/test_pictures.py": (*PACKAGE, "docs/images", "harness/browser.py", "harness/pictures"),
    "tests/outside/test_site.py": (*PACKAGE, *PAGES),
    "tests/outside/test_site_in_browser.py": (*PACKAGE, *PAGES, "harness/browser.py", "testproject"),
    "tests/outside/test_wagtail.py": (*PACKAGE, "tests/newcomer.py"),
}
"""The model, and the files of tests that need Wagtail, Chromium, a wheel, the built site or another environment: what
else each depends on."""


def unaffected() -> list[str]:
    """Return what of `DEPENDS` nothing which has changed can affect; in doubt, nothing."""
    changed = changed_files()
    if changed is None:
        return []
    return [tests for tests, places in DEPENDS.items() if not any(affects(path, places) for path in changed)]


def affects(path: str, places: Collection[str]) -> bool:
    """Return whether a changed file is one that `places` names; "*.md" stands for those in the project's folder."""
    is_page = "*.md" in places and "/" not in path and path.endswith(".md")
    return is_page or is_within(path, [*places, *ALWAYS])


def changed_files() -> list[str] | None:
    """Return what differs from main's parent, if HEAD is a merge, or from the last tag; None if there is neither."""
    if _git("rev-parse", "--verify", "--quiet", "HEAD^2"):
        base = "HEAD^1"
    elif not (base := _git("describe", "--tags", "--abbrev=0")):
        return None
    committed = _git("diff", "--name-only", base, "HEAD").splitlines()
    new = _git("ls-files", "--others", "--exclude-standard").splitlines()
    return [*committed, *_git("diff", "--name-only", "HEAD").splitlines(), *new]


def _git(*words: str) -> str:
    """Return what git prints; "" if it fails or is not there."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
