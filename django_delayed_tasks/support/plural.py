"""Words of messages that agree with a number. Texts of the admin are translated, and use Django's ``ngettext``."""


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``one`` if ``count`` is 1, otherwise ``many``; by default that is ``one`` with an s."""
    return one if count == 1 else many or f"{one}s"
