"""``make messages``: bring the translations up to date with the marked texts of the package, and compile them.

It reads modules and templates as ``manage.py makemessages`` does, and needs no program of gettext.
"""

import sys
from io import BytesIO
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

PACKAGE: Final = Path(__file__).parents[2] / "django_delayed_tasks"
LOCALES: Final = PACKAGE / "locale"
KEYWORDS: Final = DEFAULT_KEYWORDS | {
    f"{name}_lazy": DEFAULT_KEYWORDS[name] for name in ("gettext", "ngettext", "pgettext", "npgettext")
}
WIDTH: Final = 120


def marked() -> Catalog:
    """Return the texts that modules and templates mark for translation."""
    found = Catalog(charset="utf-8")
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html")]):
        name = str(path.relative_to(PACKAGE))
        for _, text, comments, context in extract("python", BytesIO(source(path).encode()), KEYWORDS, ["Translators:"]):
            found.add(text, locations=[(name, 0)], auto_comments=comments, context=context)
    return found


def source(path: Path) -> str:
    """Return a module's text, or the calls of gettext that correspond to a template."""
    text = path.read_text()
    if path.suffix == ".py":
        return text
    return "\n".join(line.lstrip() for line in templatize(text, origin=str(path)).splitlines())


def catalogs() -> list[Path]:
    """Return the catalog of each language."""
    return sorted(LOCALES.glob("*/LC_MESSAGES/django.po"))


def read(path: Path) -> Catalog:
    """Return a catalog as it is written."""
    with path.open("rb") as file:
        return read_po(file, locale=path.parts[-3])


def update(path: Path, texts: Catalog) -> int:
    """Write the catalog with exactly these texts, and its compiled form; return how many have no translation."""
    catalog = read(path)
    catalog.update(texts, no_fuzzy_matching=True, update_creation_date=False)
    with path.open("wb") as file:
        write_po(file, catalog, width=WIDTH, include_lineno=False, sort_by_file=True, ignore_obsolete=True)
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalog)
    return sum(not message.string for message in catalog if message.id)


def main() -> int:
    """Update each catalog; return 1 if texts have no translation."""
    texts, is_complete = marked(), True
    for path in catalogs():
        missing = update(path, texts)
        is_complete = is_complete and not missing
        print(f"{path.relative_to(PACKAGE.parent)}: {len(texts)} texts, {missing} without a translation")
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
