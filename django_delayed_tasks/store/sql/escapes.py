"""Texts and JSON texts in ASCII."""

import json
import re

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def in_ascii(text: str) -> str:
    """The text with escapes, as in ``\\u652f``, in the place of all characters that are not ASCII."""
    return text.encode("ascii", "backslashreplace").decode()


def json_in_ascii(text: str) -> str:
    """JSON text of the same value."""
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def json_with_escapes(text: str) -> str:
    """JSON text of a value that has escapes in its texts, where the other one has the characters."""
    return _NOT_ASCII.sub(lambda found: json.dumps(in_ascii(found[0]))[1:-1], text)
