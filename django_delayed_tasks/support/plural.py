"""Words of log lines and exceptions that agree with a number. Translated texts use Django's ``ngettext``."""


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``one`` if ``count`` is 1, otherwise ``many``; by default that is ``one`` with an s."""
    return one if count == 1 else many or f"{one}s"
