"""The numeric constants of the package, with what each bounds: a page that is read from the code.

One directive, whose content is written as Markdown: ``{constants}``.
"""

import ast
import inspect
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import django_delayed_tasks

ROOT = Path(django_delayed_tasks.__file__).parent


class Constant(NamedTuple):
    """A number, or several, that a module names; ``meaning`` is its docstring, empty if it has none."""

    module: str
    name: str
    value: str
    meaning: str


def constants() -> list[Constant]:
    """Return the numeric constants of all modules but migrations, in the order of the tree."""
    modules = sorted(path for path in ROOT.rglob("*.py") if "migrations" not in path.parts)
    return [constant for path in modules for constant in _of_module(path)]


def _of_module(path: Path) -> Iterator[Constant]:
    body = ast.parse(path.read_text()).body
    for statement, following in zip_longest(body, body[1:]):
        match statement:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                name = ast.unparse(target)
                if name.isupper() and _is_numeric(value):  # others are variables
                    yield Constant(path.relative_to(ROOT).as_posix(), name, ast.unparse(value), _text_of(following))


def _is_numeric(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return _is_numeric(operand)
        case ast.BinOp(left=left, right=right):
            return _is_numeric(left) and _is_numeric(right)
        case ast.Tuple(elts=elements):
            return bool(elements) and all(map(_is_numeric, elements))
        case ast.Call(func=ast.Name(id="timedelta")):
            return True
    return False


def _text_of(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(inspect.cleandoc(text).split())
    return ""


def page() -> Iterator[str]:
    """Write a section for each part of the package, with a table of its constants."""
    part = ""
    for constant in constants():
        folder = constant.module.partition("/")[0].removesuffix(".py")
        if folder != part:
            part = folder
            yield from ["", f"## `{part}`", "", "| constant | value | meaning |", "|---|---|---|"]
        name = f"`{constant.module}` `{constant.name}`"
        yield f"| {name} | `{constant.value}` | {_escaped(constant.meaning)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")
