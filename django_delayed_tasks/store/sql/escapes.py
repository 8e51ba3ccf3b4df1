"""Escapes: texts without what no database can store, and texts and JSON texts written in ASCII alone."""

import json
import re

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def without_unstorable(text: str) -> str:
    """Return the text with what no database can store replaced: NULs, and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="backslashreplace").decode()


def in_ascii(text: str) -> str:
    """Return the text with escapes such as ``\\u652f`` in place of all characters that are not ASCII."""
    return text.encode("ascii", "backslashreplace").decode()


def json_with_escapes(text: str) -> str:
    """Return JSON text in ASCII whose value has escapes in its strings, where the original value has characters."""
    return _NOT_ASCII.sub(lambda found: json.dumps(in_ascii(found[0]))[1:-1], text)
