"""The layers of the package and the check that imports only go down. Reads source, imports nothing."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

# The first part of a module's path inside the package, and its layer.
LAYERS: Mapping[str, int] = {
    **dict.fromkeys(("states", "outcomes", "exceptions", "clock", "conf", "signals", "fields", "forks"), 0),
    **dict.fromkeys(("exact_json", "support", "triggers"), 0),
    "models": 1,
    **dict.fromkeys(("handlers", "store"), 2),
    "leases": 3,
    "executor": 4,
    "api": 5,
    **dict.fromkeys(("admin", "backends", "checks", "apps", "management", "metrics", "testing", "migrations"), 6),
}
SHARED_LAYERS = frozenset({0, 6})  # whose members may import each other
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")

NodeTypes = tuple[type[ast.AST], ...]


def violations(root: Path, package: str) -> list[str]:
    """What is wrong below `root`, the folder of `package`: unranked modules, imports up or across."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        found.extend(check_file(path, root, package))
    return found


def check_file(path: Path, root: Path, package: str) -> Iterator[str]:
    """What is wrong in one file. The package's own ``__init__`` is lazy and may name anything."""
    relative = path.relative_to(root)
    if relative == Path("__init__.py"):
        for target, line in imports(path, package, [package], skipped=FUNCTIONS):
            yield f"{relative}:{line}: imports {target} at import time; its names are loaded lazily"
        return
    unit = relative.parts[0].removesuffix(".py")
    if unit not in LAYERS:
        yield f"{relative}: {unit} has no layer; give it one in tests/layers.py"
        return
    for target, line in imports(path, package, [package, *relative.parts[:-1]]):
        if problem := judge(unit, target):
            yield f"{relative}:{line}: {problem}"


def judge(unit: str, target: str) -> str:
    """Why `unit` may not import `target`; nothing when it may."""
    if target == unit or target.startswith("__"):  # such as __version__, which the root itself defines
        return ""
    if target not in LAYERS:
        return f"imports {target}, which has no layer"
    if LAYERS[target] > LAYERS[unit]:
        return f"{unit} (layer {LAYERS[unit]}) imports {target} (layer {LAYERS[target]}), which is above it"
    if LAYERS[target] == LAYERS[unit] and LAYERS[unit] not in SHARED_LAYERS:
        return f"{unit} imports {target}, which is beside it on layer {LAYERS[unit]}"
    return ""


def imports(path: Path, package: str, folder: list[str], skipped: NodeTypes = ()) -> Iterator[tuple[str, int]]:
    """The units of `package` that a file in `folder` (a package's parts) imports, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in import_statements(tree, skipped):
        for name in imported_names(node, folder):
            parts = name.split(".")
            if parts[0] == package and len(parts) > 1:
                yield parts[1], node.lineno


def import_statements(tree: ast.AST, skipped: NodeTypes) -> Iterator[ast.Import | ast.ImportFrom]:
    """The statements that are executed: not those under ``if TYPE_CHECKING``, nor inside a `skipped` node."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            yield from import_statements(ast.Module(node.orelse, []), skipped)
        elif not isinstance(node, skipped):
            yield from import_statements(node, skipped)


def imported_names(node: ast.Import | ast.ImportFrom, folder: list[str]) -> list[str]:
    """The absolute dotted names that a statement may import, each long enough to tell its unit."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = [] if node.level == 0 else folder[: len(folder) - node.level + 1]
    module = [*base, *([node.module] if node.module else [])]
    return [".".join([*module, alias.name]) for alias in node.names]
