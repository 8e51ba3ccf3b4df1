"""Texts that some character set lacks, or some collation takes for another one."""

TWINS = [
    ("room-😀", "room-🚀"),  # beyond utf8mb3 and gbk
    ("支付", "失败"),  # beyond latin1
    ("𠮷野", "吉野"),
    ("A", "a"),
    ("é", "e"),
    ("\N{LATIN SMALL LETTER E WITH ACUTE}1", "e\N{COMBINING ACUTE ACCENT}1"),
    ("ß", "ss"),
    ("Ω", "\N{OHM SIGN}"),
    ("ﬀ", "ff"),
    ("x", "x\N{ZERO WIDTH NON-JOINER}"),
    ("y", "y\N{COMBINING GRAPHEME JOINER}"),
    ("1", "\N{FULLWIDTH DIGIT ONE}"),
    ("€", "¤"),
    ("\\u652f", "\\\\u652f"),
    ("q'\"`%s", "q'\"`%%s"),
]
"""Pairs of texts that differ only in their characters."""
TEXTS = [text for pair in TWINS for text in pair]
MIXED = "A支😀é€'\"\\%s"
