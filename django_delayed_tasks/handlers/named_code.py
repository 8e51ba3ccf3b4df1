"""The one rule for code that a row names: which module may be imported, found and read before any of it runs.

A row may have been written by hand, or by a user of another process. What it names is used if the process has already
imported it; otherwise its module is imported only if that belongs to an installed app or to ``FUNCTION_MODULES``, and
its source defines what the row names.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pkgutil import get_importer
from typing import Any

from django.apps import apps

from django_delayed_tasks.conf import settings

Defines = Callable[[ast.AST, str], bool]
"""Whether a statement defines what is looked for under this name."""
_TASKS = {("django.tasks.base", "Task"), ("django_tasks.base", "Task")}


def task_named(path: str) -> Any:
    """Return the task of the Tasks framework at this path, which may be of a function that is defined elsewhere.

    Raises:
        ImportError: there is none, or its module must not be imported.
    """
    found = _named(path, _makes_a_task)
    if not any((cls.__module__, cls.__name__) in _TASKS for cls in type(found).__mro__):
        raise ImportError(f"{path} is no function decorated with @task")
    return found


def exception_named(path: str) -> type[BaseException]:
    """Return the class of exceptions at this path.

    Raises:
        ImportError: there is nothing, or its module must not be imported.
        ValueError: there is something else.
    """
    found = _named(path, lambda node, name: isinstance(node, ast.ClassDef) and node.name == name)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        raise ValueError(f"{path!r} does not reference a valid exception.")  # as Django's own TaskError says
    return found


def _named(path: str, defines: Defines) -> Any:
    module, _, name = path.rpartition(".")
    if module not in sys.modules:
        _refuse_to_import(module, name, defines)
    found = vars(import_module(module))  # not its attributes: a module's __getattr__ may import others
    if name not in found:
        raise ImportError(f"{module} has no {name}")
    return found[name]


def _refuse_to_import(module: str, name: str, defines: Defines) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise ImportError(f"{module!r} is no name of a module")
    trusted = (*(config.name for config in apps.get_app_configs()), *settings.FUNCTION_MODULES)
    if not any(module == package or module.startswith(f"{package}.") for package in trusted):
        raise ImportError(f"{module} is neither in an installed app nor in DELAYED_TASKS['FUNCTION_MODULES']")
    if not any(defines(node, name) or _imports(node, name) for node in _run_by(ast.parse(_source_of(module)))):
        raise ImportError(f"{module} does not define {name}, as far as its source tells")


def _run_by(node: ast.AST) -> Iterator[ast.AST]:
    """Yield this node and all in it that is evaluated together with it: no bodies of functions and classes."""
    nodes = [node]
    for found in nodes:
        yield found
        if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(found))


def _source_of(module: str) -> str:
    """Return the source of a module, which is found without importing it or the packages that it is in."""
    parts = module.split(".")
    path: Sequence[str] | None = None
    for package in (".".join(parts[:length]) for length in range(1, len(parts))):
        path = sys.modules[package].__path__ if package in sys.modules else _folders(_spec_of(package, path))
    loader: Any = _spec_of(module, path).loader
    source: str | None = loader.get_source(module) if hasattr(loader, "get_source") else None
    if source is None:
        raise ImportError(f"{module} has no source")
    return source


def _spec_of(name: str, path: Sequence[str] | None) -> ModuleSpec:
    """Return the spec of a module in these folders; ``find_spec`` of importlib would import what the module is in."""
    for finder in sys.meta_path:
        is_of_folders = finder is PathFinder and path is not None
        if spec := _spec_in(name, path or ()) if is_of_folders else finder.find_spec(name, path):
            return spec
    raise ImportError(f"there is no module {name}")


def _spec_in(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """Return the spec as PathFinder does, which needs the imported parent of a package without ``__init__.py``."""
    portions: list[str] = []
    for finder in map(get_importer, path):
        spec = finder.find_spec(name) if finder else None
        if spec and spec.loader:
            return spec
        portions += (spec and spec.submodule_search_locations) or []
    package = ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = portions
    return package if portions else None


def _folders(spec: ModuleSpec) -> Sequence[str]:
    """Return the folders of a package that is not imported, or none if the spec is that of a module."""
    return list(spec.submodule_search_locations or ())


def _imports(node: ast.AST, name: str) -> bool:
    """Return whether this imports the name from another module, as the old module of what has moved does."""
    return isinstance(node, ast.ImportFrom) and any(name == (found.asname or found.name) for found in node.names)


def _makes_a_task(node: ast.AST, name: str) -> bool:
    """Return whether this is a decorated function of the name, or assigns to it what is called or named elsewhere."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == name and bool(node.decorator_list)
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    is_target = any(_assigns_to(name, found) for target in targets for found in ast.walk(target))
    is_named = isinstance(node.value, ast.Name | ast.Attribute)
    return is_target and (is_named or any(isinstance(found, ast.Call) for found in _run_by(node.value)))


def _assigns_to(name: str, node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
