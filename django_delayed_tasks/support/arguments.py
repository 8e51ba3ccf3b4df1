"""The positional arguments in the data of a function's task: which parameters of the function they are for."""

import sys
from inspect import Parameter, signature
from itertools import chain, islice, repeat
from typing import Any, Final

FUNCTION: Final = "function"
"""The key of a function's dotted path in the data of its tasks."""
ARGS: Final = "args"
"""The key of the positional arguments."""


def parameters_of(path: str, count: int) -> list[str] | None:
    """Return the names of the parameters that ``count`` positional arguments of a task function are for.

    Return None if this process has not imported the function.
    """
    module, _, name = path.rpartition(".")
    task: Any = getattr(sys.modules.get(module), name, None)
    if not callable(function := getattr(task, "func", None)):
        return None
    names, rest = [], ""
    for parameter in signature(function).parameters.values():
        if parameter.kind is Parameter.VAR_POSITIONAL:
            rest = parameter.name
        elif parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    given_by_caller = names[1:] if getattr(task, "takes_context", False) else names
    return list(islice(chain(given_by_caller, repeat(rest)), count))
