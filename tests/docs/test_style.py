"""The rules of the style sheet that can be counted, for the documentation and the docstrings of the package."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.pages import ALL, PACKAGE, README, ROOT, rows

DOCS = ROOT / "docs"
STYLE = DOCS / "contributing/style.md"
ENGLISH = [page for page in (*ALL, ROOT / "CHANGELOG.md") if "zh-CN" not in page.name]
GUIDES = [page for page in ENGLISH if page.is_relative_to(DOCS / "how-to") or page.is_relative_to(DOCS / "tutorial")]
FOR_USERS = [
    page
    for page in ENGLISH
    if page in (README, DOCS / "index.md", *GUIDES)
    or page.relative_to(ROOT).parts[:2] in {("docs", "explanation"), ("docs", "reference"), ("docs", "examples")}
]
MAX_WORDS = 30
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^\s*(?:[-*]|\d{1,2}\.) ")
END = re.compile(r"(?<=[.!?])[\"”*)]*\s+(?=[\"“*(A-Z])")


def avoided() -> list[str]:
    """The words of the style sheet's table, without the hyphen that each has in addition."""
    cells = [row[0] for row in rows(STYLE, "Words to avoid")]
    return [word.replace("-", "", 1) for cell in cells for word in cell.split(", ")]


@cache
def sentences(page: Path, with_tables: bool = True) -> tuple[str, ...]:
    """The sentences of a page, with CODE for each code span, and links as their texts."""
    text = FENCE.sub("", page.read_text())
    paragraphs: list[str] = [""]
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", "|", ":::", "![")) or ITEM.match(line):
            paragraphs.append("")
        if line.startswith("|") and with_tables:
            paragraphs += line.strip("|").split(" | ")
        elif not line.startswith(("#", "|", ":::", "![")):
            paragraphs[-1] += f" {ITEM.sub('', line).strip()}"
    plain = (re.sub(r"`[^`]*`", "CODE", re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", one)) for one in paragraphs)
    return tuple(sentence for one in plain for sentence in END.split(one.strip()) if sentence)


@cache
def docstrings() -> tuple[tuple[str, str], ...]:
    """The docstrings of the package, in one line, each with the module that has it."""
    return tuple(
        (str(path.relative_to(ROOT)), " ".join(text.split()))
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        and (text := ast.get_docstring(node))
    )


@pytest.mark.parametrize("word", avoided())
def test_words_to_avoid(word: str) -> None:
    pattern = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    found = [f"{page.relative_to(ROOT)}: {one}" for page in ENGLISH for one in sentences(page) if pattern.search(one)]
    found += [f"{module}: {text}" for module, text in docstrings() if pattern.search(text)]
    assert found == []


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_users(page: Path) -> None:
    """A subject is a noun, and a thing is named."""
    clauses = [one for one in sentences(page) if re.match(r"\W*(What|Whatever|Who)\b", one) and "?" not in one]
    vague = [one for one in sentences(page) if re.search(r"\b(those|of it)\b", one, re.IGNORECASE)]
    assert clauses + vague == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_sentences_of_guides_are_short(page: Path) -> None:
    long = [one for one in sentences(page, with_tables=False) if len(one.split()) > MAX_WORDS]
    assert long == []


def test_docstrings_name_things() -> None:
    vague = re.compile(r"(Do as|What|(Return|Yield) what|(Return|Yield) whatever)\b")
    assert [f"{module}: {text}" for module, text in docstrings() if vague.match(text)] == []
