"""Pages in other languages keep step with those in English: the same sections, examples, pictures and names in them."""

import re
from pathlib import Path

import pytest

from tests import pages

LANGUAGE = re.compile(r"\.(?=[a-z])[a-z]{2}-[A-Z]{2}(?=\.md$)")
TRANSLATED = [page for page in pages.ALL if LANGUAGE.search(page.name)]

every_translation = pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(pages.ROOT)))


def original(page: Path) -> Path:
    return page.with_name(LANGUAGE.sub("", page.name))


def levels(page: Path) -> list[str]:
    return [level for level, _ in pages.HEADING.findall(pages.prose(page))]


def code_in_text(page: Path) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", pages.prose(page)))


def pictures(page: Path) -> list[str]:
    return re.findall(r"!\[[^]]+]\((\S+)\)", pages.prose(page))


def test_there_are_translations() -> None:
    assert {page.name for page in TRANSLATED} == {"README.zh-CN.md", "first-task.zh-CN.md"}


@every_translation
def test_sections_are_those_of_the_original(page: Path) -> None:
    assert levels(page) == levels(original(page))


@every_translation
def test_examples_are_those_of_the_original(page: Path) -> None:
    assert pages.blocks(page) == pages.blocks(original(page))


@every_translation
def test_names_and_pictures_are_those_of_the_original(page: Path) -> None:
    assert code_in_text(page) == code_in_text(original(page))
    assert pictures(page) == pictures(original(page))


@every_translation
def test_links_lead_where_those_of_the_original_do(page: Path) -> None:
    def targets(of: Path) -> set[Path]:
        files = {link.file for link in pages.links(of)} - {page, original(page)}
        return {original(file) for file in files}

    assert targets(page) == targets(original(page))
