"""The translations have every text that the package marks, with the same placeholders, and are compiled."""

import ast
import re
from collections.abc import Iterator
from gettext import GNUTranslations
from pathlib import Path

import django
import pytest
from babel.messages.catalog import Message

from harness.scripts import messages

PLACEHOLDER = re.compile(r"%%|%\(\w+\)[.\d]*[a-z]|%[.\d]*[sdf]|{\w*}")
MARKS = {*messages.KEYWORDS, "_"}

every_catalog = pytest.mark.parametrize("path", messages.catalogs(), ids=lambda path: path.parts[-3])

Key = tuple[str | None, object]


@pytest.fixture(scope="module")
def marked() -> dict[Key, Message]:
    return by_key(messages.marked())


def by_key(found: object) -> dict[Key, Message]:
    return {(message.context, message.id): message for message in found if message.id}  # type: ignore[attr-defined]


def texts(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)  # type: ignore[arg-type]


def placeholders(text: str) -> list[str]:
    return sorted(PLACEHOLDER.findall(text))


def test_simplified_chinese_is_among_the_languages() -> None:
    assert [path.parts[-3] for path in messages.catalogs()] == ["zh_Hans"]


def test_texts_of_modules_and_of_templates_are_found(marked: dict[Key, Message]) -> None:
    assert {(None, "Overview"), (None, "Run now"), (None, "As a table"), (None, ("%s task", "%s tasks"))} <= set(marked)


def test_no_text_is_marked_within_an_f_string() -> None:
    """Python 3.11 has an f-string as one token, in which no text is found."""
    within = [
        f"{path.name}:{call.lineno}"
        for path in messages.PACKAGE.rglob("*.py")
        for string in ast.walk(ast.parse(path.read_text()))
        if isinstance(string, ast.JoinedStr)
        for call in ast.walk(string)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in MARKS
    ]
    assert within == []


@every_catalog
def test_every_text_is_translated_and_no_other(path: Path, marked: dict[Key, Message]) -> None:
    """``make messages`` brings the catalog up to date."""
    found = by_key(messages.read(path))
    assert set(found) == set(marked)
    assert [key for key, message in found.items() if not all(texts(message.string or ""))] == []
    assert [key for key, message in found.items() if message.fuzzy] == []


@every_catalog
def test_translations_have_the_placeholders_of_their_texts(path: Path) -> None:
    """A plural form may leave out none either, since a language without plurals has one form for all numbers."""
    differing = [
        (message.id, translated)
        for message in messages.read(path)
        for translated in texts(message.string)
        if message.id and placeholders(texts(message.id)[-1]) != placeholders(translated)
    ]
    assert differing == []


@every_catalog
def test_the_compiled_catalog_is_that_of_the_text(path: Path) -> None:
    assert dict(compiled(path.with_suffix(".mo"))) == dict(written(path))


@every_catalog
def test_texts_that_django_has_too_are_translated_as_there(path: Path) -> None:
    """Catalogs of all apps are merged, so another translation would change the pages of other apps."""
    folder = Path(django.__file__).parent
    for name in ("conf", "contrib/admin", "contrib/auth"):
        of_django = dict(compiled(folder / name / "locale" / path.parts[-3] / "LC_MESSAGES/django.mo"))
        ours = dict(written(path))
        assert {key: ours[key] for key in ours.keys() & of_django.keys()} == {
            key: of_django[key] for key in ours.keys() & of_django.keys()
        }


def compiled(path: Path) -> Iterator[tuple[object, str]]:
    """Yield the texts of a compiled catalog, as the standard library reads them."""
    with path.open("rb") as file:
        yield from ((key, text) for key, text in vars(GNUTranslations(file))["_catalog"].items() if key)


def written(path: Path) -> Iterator[tuple[object, str]]:
    """Yield the texts of a catalog under the keys that the standard library gives them."""
    for message in messages.read(path):
        singular = texts(message.id)[0]
        key = f"{message.context}\x04{singular}" if message.context else singular
        for number, text in enumerate(texts(message.string)):
            if message.id:
                yield ((key, number) if message.pluralizable else key), text
