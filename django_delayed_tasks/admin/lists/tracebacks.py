"""The display of tracebacks: frames of libraries are folded, the project's own are shown."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

import django_delayed_tasks
from django_delayed_tasks.admin.lists.columns import EMPTY, preformatted

OURS: Final = str(Path(django_delayed_tasks.__file__).parent)
_FRAME: Final = re.compile(r'  File "(?P<path>[^"]*)", line \d+')
_OF_LIBRARY: Final = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<frozen ")


def folded(text: str) -> SafeString | str:
    """Return a traceback, escaped, with the frames of libraries in elements that open on a click."""
    parts = [(is_library, list(lines)) for is_library, lines in groupby(_parts(text), key=lambda part: part[0])]
    if not any(is_library for is_library, _ in parts):
        return preformatted(text) if text else EMPTY
    return format_html('<div class="ddt-traceback">{}</div>', format_html_join("", "{}", _shown(parts)))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines that belong together, a frame or another line, and whether they are a library's frame."""
    frame: list[str] = []
    is_library = False
    for line in text.splitlines():
        found = _FRAME.match(line)
        if frame and (found or not line.startswith("    ")):
            yield is_library, "\n".join(frame)
            frame = []
        if found:
            frame, is_library = [line], is_of_library(found["path"])
        elif frame:
            frame.append(line)
        else:
            yield False, line
    if frame:
        yield is_library, "\n".join(frame)


def is_of_library(path: str) -> bool:
    """Return whether a file belongs to Python, to an installed package, or to this one."""
    return bool(_OF_LIBRARY.search(path)) or path.startswith(OURS)


def _shown(parts: list[tuple[bool, list[tuple[bool, str]]]]) -> Iterator[tuple[SafeString | str]]:
    for is_library, lines in parts:
        block = preformatted("\n".join(text for _, text in lines))
        if is_library:
            label = ngettext("%d frame of libraries", "%d frames of libraries", len(lines)) % len(lines)
            block = format_html("<details><summary>{}</summary>{}</details>", label, block)
        yield (block,)
