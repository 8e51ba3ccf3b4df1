"""The small changes: mutmut's, a call left out, and a condition turned around, each as a whole new text of one file."""

import ast
import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import OPERATORS_TYPE, mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

from harness import ROOT
from harness.scripts.mutation.places import PACKAGE

LOGGERS = ("logger", "log")
WORD = re.compile(r"\s")


@dataclass(frozen=True)
class Mutant:
    """One change: ``lines`` are those of the changed statement, which has to be run for the change to be noticed."""

    key: str
    path: str
    lines: range
    body: range
    change: str
    source: str


def call_left_out(node: cst.Expr) -> Iterator[cst.Pass]:
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def condition_turned_around(node: cst.If) -> Iterator[cst.If]:
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    negated = cst.UnaryOperation(cst.Not(), test)
    space = cst.SimpleWhitespace(" ")
    yield node.with_changes(test=negated, whitespace_before_test=space)


OPERATORS: OPERATORS_TYPE = [*mutation_operators, (cst.Expr, call_left_out), (cst.If, condition_turned_around)]


class Visitor(MutationVisitor):
    """mutmut's visitor, which enters decorated functions as well: the file is changed, and nothing is wrapped."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef) and node.decorators:
            return False
        return super()._skip_node_and_children(node)


class Change(NamedTuple):
    """A change that can be made: the key stays the same while the function does not change in that place."""

    key: str
    old: cst.CSTNode
    new: cst.CSTNode


def keys_of(file: Path) -> list[str]:
    """Return the keys of all mutants of a file."""
    return [change.key for change in _changes(file.relative_to(ROOT), file.read_text())[1]]


def make(file: Path, keys: Collection[str]) -> list[Mutant]:
    """Return those mutants of a file, without the ones that are the same program."""
    source = file.read_text()
    tree = ast.parse(source)
    module, changes = _changes(file.relative_to(ROOT), source)
    made = []
    for change in changes:
        if change.key in keys:
            changed = _replaced(module, change.old, change.new)
            if ast.dump(ast.parse(changed)) != ast.dump(tree):
                made.append(_mutant(change.key, str(file.relative_to(ROOT)), source, tree, changed))
    return made


@lru_cache(maxsize=1)  # `make` needs those that `keys_of` has counted
def _changes(path: Path, source: str) -> tuple[cst.Module, list[Change]]:
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = Visitor(OPERATORS, IgnoredCode(set(), set(), set()))
    wrapper.visit(visitor)
    positions = wrapper.resolve(PositionProvider)
    tree = ast.parse(source)
    functions, words, times = _functions(tree), _words(tree), Counter[str]()
    changes = []
    for mutation in visitor.mutations:
        old, new = mutation.original_node, mutation.mutated_node
        where = positions.get(old)
        if where is None or _is_about_words(old, new, where, words):
            continue
        function = functions.get(where.start.line, "module")
        text = f"{function}\n{_code(old)}\n{_code(new)}"
        times[text] += 1
        number = hashlib.sha256(f"{path}\n{text}\n{times[text]}".encode()).hexdigest()[:8]
        changes.append(Change(f"{path.relative_to(PACKAGE)}:{function}:{number}", old, new))
    return wrapper.module, changes


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _functions(tree: ast.Module) -> dict[int, str]:
    """Return the name of the innermost function or class of each line that is in one."""
    names: dict[int, str] = {}

    def name(parent: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                names.update(dict.fromkeys(range(child.lineno, (child.end_lineno or 0) + 1), prefix + child.name))
                name(child, f"{prefix}{child.name}.")
            else:
                name(child, prefix)

    name(tree, "")
    return names


def _replaced(module: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> str:
    changed = module.deep_replace(old, new)
    assert isinstance(changed, cst.Module)
    return changed.code


def _words(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where the words for people are: calls of a logger, the calls that make errors, and ``__all__``."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.Assign | ast.Call) and _is_word(node)]
    return [((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)) for node in found]


def _is_word(node: ast.Raise | ast.Assign | ast.Call) -> bool:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) in ("__all__", "logger")
    return isinstance(node, ast.Raise) or ast.unparse(node.func).split(".")[0] in LOGGERS


def _is_about_words(
    old: cst.CSTNode, new: cst.CSTNode, where: CodeRange, words: list[tuple[tuple[int, int], tuple[int, int]]]
) -> bool:
    """Return whether only words for people change, or only the case of letters in SQL, which means the same."""
    both = isinstance(old, cst.SimpleString) and isinstance(new, cst.SimpleString) and (old.value, new.value)
    if both and both[0].lower() == both[1].lower() and WORD.search(both[0]):
        return True
    start, end = (where.start.line, where.start.column), (where.end.line, where.end.column)
    return any(first <= start and end <= last for first, last in words)


def _mutant(key: str, path: str, source: str, tree: ast.Module, changed: str) -> Mutant:
    before, after = source.splitlines(), changed.splitlines()
    change = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    statement, body = _around(tree, _first_line(change[0]))
    text = "\n".join(line[0] + line[1:].strip() for line in change if not line.startswith("@@"))
    return Mutant(key, path, statement, body, text, changed)


def _first_line(header: str) -> int:
    match = re.match(r"@@ -(\d+)", header)
    assert match is not None
    return int(match[1])


def _around(tree: ast.Module, line: int) -> tuple[range, range]:
    """Return the lines of the innermost statement around a line, and those of the body of its function."""
    statements = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    functions = [node for node in statements if isinstance(node, ast.FunctionDef)]
    body = range(functions[-1].body[0].lineno, (functions[-1].end_lineno or 0) + 1) if functions else range(0)
    return (_head(statements[-1]) if statements else range(line, line + 1)), body


def _head(statement: ast.stmt) -> range:
    """Return the lines of a statement, without the statements inside it."""
    inner = [child.lineno for child in ast.walk(statement) if isinstance(child, ast.stmt) and child is not statement]
    last = min(inner) if inner else (statement.end_lineno or 0) + 1
    return range(statement.lineno, max(last, statement.lineno + 1))
