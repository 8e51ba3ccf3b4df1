"""A program that has imported Django, and forks a child for each command: the start of a Python costs more than most.

A line of its input is a command as JSON: its arguments, its folder, and the file for what it prints. A line of its
output is the exit code. The children import the project, and this package, by themselves.
"""

import gc
import importlib
import json
import os
import runpy
import sys

IMPORTED = (
    "django.contrib.admin", "django.contrib.messages.storage.fallback", "django.contrib.sessions.middleware",
    "django.core.management.commands.makemigrations", "django.core.management.commands.migrate",
    "django.core.management.commands.shell", "django.middleware.common", "django.middleware.csrf",
    "django.template.backends.django", "django.views.defaults", "sqlite3", "sqlparse", "statistics",
)  # fmt: skip
"""What the first commands of a project import and what needs no settings."""


def main() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()  # the children need not look at what is here
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        for line in sys.stdin:
            if not (child := os.fork()):
                become(**json.loads(line))
                return
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), file=answers)


def become(arguments: list[str], folder: str, output: str) -> None:
    """Do what ``python ARGUMENTS`` does; what it raises, ``SystemExit`` too, ends this process as it ends that one."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(output, os.O_WRONLY), 1)
    os.dup2(1, 2)
    os.chdir(folder)
    sys.path.insert(0, folder)
    match arguments:
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(code, {"__name__": "__main__"})
        case ["-m", module, *_]:
            sys.argv = arguments[1:]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [program, *_]:
            sys.argv = arguments
            runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
