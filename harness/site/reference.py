"""The parts of the reference that are read from the package when the site is built, so that they cannot drift.

Four directives, whose content is written as Markdown: ``{public-names}``, ``{settings}``, ``{commands}`` and
``{constants}``.
"""

import inspect
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from django.core.management import find_commands, load_command_class
from django.core.management.base import BaseCommand, DjangoHelpFormatter
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import django_delayed_tasks
from django_delayed_tasks import conf
from harness.site.constants import page as constants

PACKAGE = django_delayed_tasks.__name__
AFTERWARDS = ("exceptions", "signals", "states")
"""The modules whose names are public, too, and are imported from there."""

Lines = Iterator[str]


class Written(SphinxDirective):
    """A directive in whose place text in Markdown is written."""

    write: ClassVar[Callable[[], Lines]]

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(type(self).write()), allow_section_headings=True)


def public_names() -> Lines:
    """Write a section for each kind of public names, with the docstrings."""
    values = {name: getattr(django_delayed_tasks, name) for name in django_delayed_tasks.__all__}
    del values["__version__"]
    for title, (kind, is_of_kind) in KINDS.items():
        yield f"## {title}"
        names = [f"{PACKAGE}.{name}" for name, value in values.items() if is_of_kind(value)]
        yield from documented(kind, names, options_of(kind))
    for module in AFTERWARDS:
        yield f"## Module `{module}`"
        yield from documented("module", [f"{PACKAGE}.{module}"], [":members:"])


KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Functions": ("function", lambda value: inspect.isfunction(value) and not inspect.iscoroutinefunction(value)),
    "Functions that are awaited": ("function", inspect.iscoroutinefunction),
    "Classes": ("class", inspect.isclass),
}


def options_of(kind: str) -> list[str]:
    """Return the options of autodoc: a class is shown with its own methods."""
    return [":members:", ":exclude-members: DoesNotExist, MultipleObjectsReturned"] if kind == "class" else []


def documented(kind: str, names: list[str], options: list[str]) -> Lines:
    """Write autodoc's directive for each of these names."""
    for name in names:
        yield from ["```{eval-rst}", f".. auto{kind}:: {name}", *(f"   {option}" for option in options), "```", ""]


def settings() -> Lines:
    """Write a table of the keys of ``DELAYED_TASKS``: the default, and what is accepted in the words of its error."""
    yield from ["| key | type | default | accepted |", "|---|---|---|---|"]
    kinds = get_type_hints(conf.Values)
    for field in fields(conf.Values):
        kind = inspect.formatannotation(kinds[field.name])
        yield f"| `{field.name}` | `{escaped(kind)}` | `{field.default!r}` | {escaped(accepted(field.name))} |"


def accepted(key: str) -> str:
    """Return what the reader of a setting says that it expected, given something that no setting can be."""
    try:
        conf.READERS[key](object())
    except ValueError as error:
        return str(error).removeprefix("expected ")
    raise AssertionError(f"{key} accepts anything")


def escaped(text: str) -> str:
    """Return the text for a cell of a table."""
    return text.replace("|", "\\|")


def commands() -> Lines:
    """Write what each command of the package answers to ``--help``, without the options that all commands have."""
    root = Path(django_delayed_tasks.__path__[0])
    for app, folder in {PACKAGE: root, f"{PACKAGE}.importers": root / "importers"}.items():
        for name in sorted(find_commands(str(folder / "management"))):
            command = load_command_class(app, name)
            yield from [f"## `{name}`", "", "```text", help_text(command, name), "```", ""]


def help_text(command: BaseCommand, name: str) -> str:
    """Return the help of a command."""
    command.suppressed_base_arguments = SHARED_OPTIONS
    parser: ArgumentParser = command.create_parser("manage.py", name)
    parser.formatter_class = partial(DjangoHelpFormatter, width=94)
    return parser.format_help().rstrip()


SHARED_OPTIONS = {
    option for action in BaseCommand().create_parser("", "")._actions for option in action.option_strings
} - {"--help", "-h"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    written = {"public-names": public_names, "settings": settings, "commands": commands, "constants": constants}
    for name, write in written.items():
        app.add_directive(name, type(name, (Written,), {"write": staticmethod(write)}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
