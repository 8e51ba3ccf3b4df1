"""Each Python example of the documentation is run by a test. Said once, here: which one runs which page."""

import re
from pathlib import Path

import pytest

from tests import pages
from tests.docs.shown import shown
from tests.pages import ROOT

EXAMPLES = 142
FOLLOWED = {
    "README.md": "test_docs_followed.py",
    "docs/tutorial/first-task.md": "test_docs_followed.py",
    "docs/tutorial/with-django-tasks.md": "test_docs_followed.py",
    "docs/how-to/test-your-handlers.md": "outside/test_clean_room.py",
    "docs/how-to/migrate-from-background-tasks.md": "outside/test_migrations.py",
    "docs/how-to/migrate-from-celery-beat.md": "outside/test_migrations.py",
    "docs/how-to/migrate-from-celery.md": "outside/test_migrations.py",
    "docs/how-to/migrate-from-cron.md": "outside/test_migrations.py",
    "docs/how-to/migrate-from-django-q2.md": "outside/test_migrations.py",
    "docs/how-to/migrate-from-django-tasks-db.md": "outside/test_migrations.py",
    "docs/how-to/publish-with-wagtail.md": "outside/test_wagtail.py",
    "docs/examples/cluster-jobs/README.md": "examples/test_cluster_jobs.py",
    "docs/examples/crawler/README.md": "examples/test_crawler.py",
    "docs/examples/file-nodes/README.md": "examples/test_file_nodes.py",
    "docs/examples/own-task-table/README.md": "examples/test_own_task_table.py",
    "docs/examples/proxy-pool/README.md": "examples/test_proxy_pool.py",
}
"""The pages that a test follows as a whole, every block of them, with real commands in a project of its own."""
ALIKE = {"README.zh-CN.md", "docs/tutorial/first-task.zh-CN.md"}
"""The translations: another test compares their blocks with those of the original, letter by letter."""


def with_examples() -> dict[str, int]:
    """Return how many Python examples each page has, without pages that have none."""
    counts = {str(page.relative_to(ROOT)): len(pages.blocks(page, "python")) for page in pages.ALL}
    return {page: count for page, count in counts.items() if count}


def shown_here() -> list[str]:
    """Return the pages whose examples the tests of this folder run."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    return [f"docs/{page}" for page in re.findall(r'with shown\("([^"]+)"', tests)]


def test_each_page_with_examples_has_a_test() -> None:
    assert set(with_examples()) == set(shown_here()) | set(FOLLOWED) | ALIKE
    assert set(shown_here()).isdisjoint(FOLLOWED)


def test_a_test_that_leaves_out_an_example_fails() -> None:
    with pytest.raises(AssertionError, match=r"style.md: not run: examples \[1\]"), shown("contributing/style.md"):
        pass


def test_examples_are_as_many_as_were_counted() -> None:
    """A fence that is written in another way is not found, and so not run."""
    fences = sum(
        len(re.findall(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\{?(?:code.*)?py", page.read_text(), re.M)) for page in pages.ALL
    )
    assert (sum(with_examples().values()), fences) == (EXAMPLES, EXAMPLES)


@pytest.mark.parametrize("page", FOLLOWED)
def test_the_test_that_follows_the_page_names_it(page: str) -> None:
    source = (ROOT / "tests" / FOLLOWED[page]).read_text()
    folder = Path(page).parent.name
    assert "follow" in source
    assert re.search(rf'"(?:[\w-]+/)*{re.escape(Path(page).name)}"|\bREADME\b|"{folder}"', source)
