"""Which modules may import which in the package, and the checks of it. Reads source, imports nothing.

Every import counts, also one inside a function or under ``if TYPE_CHECKING``.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

# The floors, from the lowest up; a line names the units that are side by side. A unit is a module or a folder, and a
# module belongs to the longest name that it begins with. A unit may import units of the floors below its own.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("states", "exceptions", "clock", "outcomes", "conf", "signals", "fields", "support", "triggers"),
    ("models",),
    ("handlers", "store.sql", "store.json_limits"),
    ("store.validation", "store.executors", "store.records", "store.resources", "store.statistics"),
    ("store.acceptance", "store.notices", "store.schedules", "store.claiming"),
    ("store.settling", "store.limits"),
    ("leases",),
    ("executor.threads", "executor.options", "executor.meter", "executor.tally"),
    ("executor.queue_names",),
    ("executor.held", "executor.announcing"),
    ("executor.settling",),
    ("executor.membership",),
    ("executor.running",),
    ("executor.limits",),
    ("executor.claiming", "executor.health"),
    ("executor.executor",),
    ("executor.process",),
    ("api", "bulk"),
    ("asynchronous", "function_tasks"),
    ("stats", "testing"),
    ("admin.lists",),
    ("admin.steering",),
    ("admin.triggers",),
    ("admin.tasks",),
    (
        "admin",
        "backends",
        "checks",
        "apps",
        "integrations",
        "management",
        "metrics",
        "migrations",
        "templatetags",
    ),
)
LAYERS: Mapping[str, int] = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}
SHARED_LAYERS = frozenset({0, len(FLOORS) - 1})  # whose units may import each other

# What the floors alone would allow.
APART: Mapping[str, tuple[str, ...]] = {
    "store.schedules": ("store.resources",),
    "store.claiming": ("store.validation", "store.executors", "store.resources"),
}
# What a unit may import from above for annotations, which is under ``if TYPE_CHECKING``: a handler is given a task.
ANNOTATIONS: Mapping[str, tuple[str, ...]] = {"handlers": ("store.claiming.claimed_task.ClaimedTask",)}
ONLY_FOR: Mapping[str, str] = {"executor.executor": "executor.process"}

# The folders at the top, from the lowest up: only tests import tests, and the package imports none of the others.
TOPS = ("django_delayed_tasks", "testproject", "harness", "tests")

MOST_MODULES = 12
UNCOUNTED = ("migrations",)  # folders that grow with each release

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NOTHING = (ast.Pass,)
TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")

NodeTypes = tuple[type[ast.AST], ...]


def violations(root: Path, package: str) -> list[str]:
    """Everything that is wrong below `root`, the folder of `package`."""
    found: list[str] = []
    for path in sorted(root.rglob("*.py")):
        found.extend(check_file(path, root, package))
    return [*found, *check_sizes(root), *check_cycles(root, package)]


def unit_of(module: str) -> str | None:
    """The unit that a module belongs to, both named from inside the package; None if it has no layer."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in LAYERS), None)


def check_file(path: Path, root: Path, package: str) -> Iterator[str]:
    """The imports of one file that go up or across."""
    relative = path.relative_to(root)
    if relative == Path("__init__.py"):
        for target, line in imports(path, package, [package], skipped=FUNCTIONS):
            yield f"{relative}:{line}: imports {target} at import time; its names are loaded lazily"
        return
    module = module_of(relative)
    unit = unit_of(module)
    folder = [package, *relative.parts[:-1]]
    targets = list(imports(path, package, folder))
    if unit is None:
        if targets or relative.name != "__init__.py":  # the folder above some rooms has a docstring only
            yield f"{relative}: {module} has no layer; give it one in tests/layers.py"
        return
    run = set(imports(path, package, folder, skipped=NOTHING))
    for target, line in targets:
        is_annotation = target in ANNOTATIONS.get(unit, ()) and (target, line) not in run
        if not is_annotation and (problem := judge(unit, target)):
            yield f"{relative}:{line}: {problem}"


def judge(unit: str, target: str) -> str:
    """The reason why `unit` may not import `target`; empty when it may."""
    if target.startswith("__"):  # such as __version__, which the root itself defines
        return ""
    other = unit_of(target)
    if other is None:
        return f"imports {target}, which has no layer"
    if other == unit:
        return ""
    if LAYERS[other] > LAYERS[unit]:
        return f"{unit} (layer {LAYERS[unit]}) imports {other} (layer {LAYERS[other]}), which is above it"
    if LAYERS[other] == LAYERS[unit] and LAYERS[unit] not in SHARED_LAYERS:
        return f"{unit} imports {other}, which is on the same layer {LAYERS[unit]}"
    if other in APART.get(unit, ()):
        return f"{unit} imports {other}, which it is kept apart from"
    if ONLY_FOR.get(other, unit) != unit:
        return f"{unit} imports {other}, which is for {ONLY_FOR[other]} only"
    return ""


def check_tops(root: Path) -> Iterator[str]:
    """The imports in the folders at the top, all below `root`, of a folder above their own."""
    for floor, top in enumerate(TOPS):
        for path in sorted((root / top).rglob("*.py")):
            relative = path.relative_to(root)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = imported_names(node, list(relative.parts[:-1]))
                    above = {name.partition(".")[0] for name in names} & set(TOPS[floor + 1 :])
                    yield from (f"{relative}:{node.lineno}: {top} imports {other}" for other in sorted(above))


def check_sizes(root: Path) -> Iterator[str]:
    """The folders with more modules than a reader can keep in mind; ``__init__`` is not counted."""
    for folder in sorted({path.parent for path in root.rglob("*.py")}):
        count = sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        if count > MOST_MODULES and folder.name not in UNCOUNTED:
            yield f"{folder.relative_to(root)}: has {count} modules; at most {MOST_MODULES} share a folder"


def check_cycles(root: Path, package: str) -> Iterator[str]:
    """Each circle of modules that import each other, once. The root's names are lazy: it is in no circle."""
    files = {module_of(path.relative_to(root)): path for path in root.rglob("*.py")}
    files.pop("", None)
    graph: dict[str, list[str]] = {}
    for module, path in sorted(files.items()):
        folder = [package, *path.relative_to(root).parts[:-1]]
        targets = (existing(name, files) for name, _ in imports(path, package, folder))
        graph[module] = sorted({target for target in targets if target})
    for circle in circles(graph):
        yield f"{circle[0]}: a circle of imports: {' -> '.join([*circle, circle[0]])}"


def existing(name: str, modules: Iterable[str]) -> str | None:
    """The module that an import of `name` loads: itself, or the one that it is a name of."""
    parent = name.rpartition(".")[0]
    return name if name in modules else parent if parent in modules else None


def circles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield the circle of each import that closes one, in a walk that visits every module once."""
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> Iterator[list[str]]:
        if module in way:
            yield way[way.index(module) :]
            return
        if module not in done:
            for target in graph.get(module, []):
                yield from walk(target, [*way, module])
            done.add(module)

    for module in graph:
        yield from walk(module, [])


def module_of(relative: Path) -> str:
    """The dotted name, inside the package, of the file at this path below its folder."""
    parts = relative.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, package: str, folder: list[str], skipped: NodeTypes = ()) -> Iterator[tuple[str, int]]:
    """What a file in `folder` (a package's parts) imports of `package`: names inside it, with their lines.

    With `skipped`, only what is executed outside of such nodes, and not under ``if TYPE_CHECKING``.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in executed(tree, skipped) if skipped else ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in imported_names(node, folder):
                top, _, rest = name.partition(".")
                if top == package and rest:
                    yield rest, node.lineno


def executed(tree: ast.AST, skipped: NodeTypes) -> Iterator[ast.AST]:
    """The nodes that are executed: not those under ``if TYPE_CHECKING``, nor inside a `skipped` node."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            yield from executed(ast.Module(node.orelse, []), skipped)
        elif not isinstance(node, skipped):
            yield node
            yield from executed(node, skipped)


def imported_names(node: ast.Import | ast.ImportFrom, folder: list[str]) -> list[str]:
    """The absolute dotted names that a statement may import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = [] if node.level == 0 else folder[: len(folder) - node.level + 1]
    module = [*base, *([node.module] if node.module else [])]
    return [".".join([*module, alias.name]) for alias in node.names]
