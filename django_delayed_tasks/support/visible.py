"""Characters that a reader does not see: controls, line separators, marks that turn text around or are not shown.

In a name they could forge a line of a log, send a command to a terminal, or show another name than the one that is
meant. So no new name may have them. The log has escapes in their place: what an error says is not ours to choose.
"""

import json
import re
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

# Controls (Cc), line and paragraph separators (Zl, Zp) and format characters (Cf), but for the two joiners, which
# Persian, the scripts of India and emoji are written with, and the few format characters that are seen. Not by
# unicodedata: what is accepted must not depend on the version of Python. Surrogates: no terminal can write them.
_UNSEEN = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_any = re.compile(f"[{_UNSEEN}]")
_not_in_lines = re.compile(f"(?![\n\t])[{_UNSEEN}]")


def unseen_in(text: str) -> str | None:
    """Return the escape of the first character that is not seen; None if there is none."""
    found = _any.search(text)
    return _escape(found) if found else None


def visible(text: str) -> str:
    """Return the text on one line, with an escape such as ``\\u001b`` or ``\\n`` in place of what is not seen."""
    return _any.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return the text, which may have several lines and tabs, with escapes in place of all else that is not seen."""
    return _not_in_lines.sub(_escape, text)


def named(text: Any) -> SafeString:
    """Return a name, or another text of a caller's, for a page, so that no letter of it turns others around."""
    return format_html("<bdi>{}</bdi>", text)


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]  # as JSON has it, so that JSON keeps its value
