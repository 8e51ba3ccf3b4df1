"""``make messages`` brings the translations up to date, and says what is missing."""

from pathlib import Path

from django.conf import settings

from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"

CATALOG = "django_delayed_tasks/locale/zh_Hans/LC_MESSAGES/django.po"


def test_nothing_changes_if_everything_is_translated(project: Path) -> None:
    before = messages_in(project / CATALOG)
    made = make("messages", folder=project)
    assert made.returncode == 0, made.stdout
    assert messages_in(project / CATALOG) == before


def test_a_new_text_is_added_and_one_that_is_gone_is_removed(project: Path) -> None:
    module = project / "django_delayed_tasks/management/shared.py"
    module.write_text(module.read_text().replace("nothing was changed", "a new text"))
    made = make("messages", folder=project)
    assert made.returncode != 0
    assert "1 without a translation" in made.stdout
    text = (project / CATALOG).read_text()
    assert 'msgid "a new text"\nmsgstr ""\n' in text
    assert "nothing was changed" not in text


def messages_in(path: Path) -> str:
    """What follows the head, which names the version of Babel."""
    return path.read_text().partition("\n\n")[2]
