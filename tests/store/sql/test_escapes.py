"""Texts that any database, and any character set, can store."""

import json

import pytest

from django_delayed_tasks.store.sql.charsets import in_ascii, json_with_escapes, without_unstorable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("支付 failed 😀", "支付 failed 😀"),
        ("a\0b\0", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
        ("lone \ud83d surrogate", "lone \\ud83d surrogate"),
    ],
)
def test_only_what_no_database_can_store_is_replaced(text: str, expected: str) -> None:
    assert without_unstorable(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), ("plain\\\x7f", "plain\\\x7f"), ("支é😀", "\\u652f\\xe9\\U0001f600")]
)
def test_a_text_in_ascii_is_readable(text: str, expected: str) -> None:
    assert in_ascii(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("支付", "\\u652f\\u4ed8"),
        ({"é": ["😀", 1.5, None]}, {"\\xe9": ["\\U0001f600", 1.5, None]}),
        ('plain \\ " \n', 'plain \\ " \n'),
        ("\x80", "\\x80"),
        ("\x7f", "\x7f"),
    ],
)
def test_json_with_escapes_is_the_value_with_readable_texts(value: object, expected: object) -> None:
    written = json_with_escapes(json.dumps(value, ensure_ascii=False))
    assert written.isascii()
    assert json.loads(written) == expected
