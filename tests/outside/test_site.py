"""``make docs`` builds the site without a warning: every page, its pictures, the navigation, and the reference."""

import re
from dataclasses import fields
from pathlib import Path

import django_delayed_tasks
from django_delayed_tasks import conf
from harness import ROOT
from harness.site.house import floors_by_folder
from tests import pages


def html(site: Path, page: Path) -> str:
    """Return the page of the site that this page of the repository became."""
    return (site / page.relative_to(ROOT)).with_suffix(".html").read_text()


def test_every_page_is_on_the_site_and_in_the_navigation(site: Path) -> None:
    navigation = html(site, ROOT / "docs/index.md")
    missing = [page for page in pages.ALL if f'href="{href(page)}"' not in navigation and "docs/index" not in str(page)]
    assert missing == []


def href(page: Path) -> str:
    """Return how the index page links to this page."""
    relative = page.relative_to(ROOT).with_suffix(".html")
    return str(relative.relative_to("docs")) if relative.is_relative_to("docs") else f"../{relative}"


def test_address_of_the_site_leads_to_the_index(site: Path) -> None:
    [target] = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', (site / "index.html").read_text())
    assert (site / target).is_file()


def test_site_has_search_version_dark_mode_and_copy_buttons(site: Path) -> None:
    page = html(site, pages.README)
    assert django_delayed_tasks.__version__ in page
    assert "theme-toggle" in page
    assert "copybutton.js" in page
    assert "add_task" in (site / "searchindex.js").read_text()


def test_pictures_are_drawn_for_light_and_dark(site: Path) -> None:
    page = html(site, ROOT / "docs/explanation/design.md")
    drawn = re.findall(r'<img class="(only-\w+)" width="\d+" alt="[^"]+" src="data:image/svg', page)
    assert drawn == ["only-light", "only-dark"] * 2


def test_files_that_pages_link_to_are_shown(site: Path) -> None:
    shown = (site / "source/tests/store/test_state_table.py.html").read_text()
    assert "state before" in shown


def test_every_public_name_has_its_docstring(site: Path) -> None:
    page = html(site, ROOT / "docs/reference/docstrings.md")
    names = set(django_delayed_tasks.__all__) - {"__version__"}
    assert [name for name in names if f'id="django_delayed_tasks.{name}"' not in page] == []


def test_every_setting_says_what_is_accepted(site: Path) -> None:
    page = html(site, ROOT / "docs/reference/settings.md")
    names = [field.name for field in fields(conf.Values)]
    assert [name for name in names if page.count(f">{name}</span>") < 2] == []
    assert "an int from 1 to 1000" in page


def test_every_command_shows_its_help(site: Path) -> None:
    page = html(site, ROOT / "docs/reference/options.md")
    commands = (ROOT / "django_delayed_tasks").rglob("management/commands/[a-z]*.py")
    assert [path.stem for path in commands if f"manage.py {path.stem}" not in page] == []
    assert "--poll-interval" in page
    assert "--no-color" not in page


def test_every_floor_of_the_house_is_explained(site: Path) -> None:
    page = html(site, ROOT / "docs/contributing/house.md")
    rows = re.findall(r"<td><p>(\d+)</p></td>\s*<td><p><code[^>]*><span class=\"pre\">[^<]+</span></code></p></td>"
                      r"\s*<td><p>(.*?)</p></td>", page)  # fmt: skip
    assert [int(number) for number, _ in rows] == [
        number
        for floors in floors_by_folder().values()
        for number, units in list(enumerate(floors))[::-1]
        for _ in units
    ]
    assert [row for row in rows if not row[1]] == []
