"""The line of Python that sets an option of a database, for the hints of checks."""


def line_for(alias: str, option: str, value: str) -> str:
    """Return a line to be added below ``DATABASES``; it works with any other options, and with none."""
    return f"DATABASES[{alias!r}].setdefault('OPTIONS', {{}})[{option!r}] = {value!r}"
