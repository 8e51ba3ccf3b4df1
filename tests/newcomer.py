"""A newcomer who follows a page of the documentation to the letter, in a fresh project on SQLite."""

import atexit
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Timer

from tests.pages import PACKAGE, ROOT, Block, blocks

WARM_PYTHON = ROOT / "tests/warm_python.py"
PATIENCE = 120.0
DONE_BEFORE = ("pip install ", "python -m venv ", ". .venv/bin/activate")
"""What the tests' own environment has behind it."""
SETTINGS = f'INSTALLED_APPS += ["{PACKAGE}", "shop"]\n'


@dataclass
class Newcomer:
    """Follows examples in ``folder``; ``outputs`` is what the commands printed.

    ``python`` is the interpreter of the project, and ``path`` the folder from which it imports the package.
    """

    folder: Path
    python: str = sys.executable
    outputs: dict[str, str] = field(default_factory=dict)
    path: Path = ROOT

    def saw(self, words: str) -> str:
        """Return the output of the one command that has these words in it."""
        [output] = [output for command, output in self.outputs.items() if words in command]
        return output

    def has_a_project(self, settings: str) -> None:
        """Begins with a project ``mysite`` that has an app ``shop``, and these lines more in its settings."""
        self.run("django-admin startproject mysite .")
        self.run("python manage.py startapp shop")
        self.append("mysite/settings.py", settings)

    def follows(self, page: Path) -> None:
        """Writes each file and runs each command of the page, in order."""
        rest = iter(blocks(page))
        for block in rest:
            if block.language == "python":
                self.append(block.file, block.text)
            for command in commands(block):
                if command == "python manage.py starttask":
                    self.watches(command, next(rest).text)
                else:
                    self.run(command)

    def append(self, file: str, text: str) -> None:
        assert file, f"the example names no file: {text}"
        with (self.folder / file).open("a") as stream:
            stream.write(text)

    def run(self, command: str, code: int = 0) -> str:
        """Runs it to its end, with this exit code; what it printed."""
        _, *rest = arguments(command)
        ended_with, printed = warm_python(self.python, self.path).run(rest, self.folder)
        assert ended_with == code, f"{command}\n{printed}"
        self.outputs[command] = printed
        return printed

    def types(self, statements: str) -> str:
        """Runs Python statements, without double quotes, in the project's shell; what they printed."""
        return self.run(f'python manage.py shell -v 0 -c "{statements}"')

    def watches(self, command: str, expected: str) -> None:
        """Runs it until it has printed the expected lines, in which "..." is anything, then presses Ctrl-C."""
        process = subprocess.Popen(
            arguments(command, self.python), cwd=self.folder, env=environment(self.path), text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        impatience = Timer(PATIENCE, process.kill)
        impatience.start()
        assert process.stdout
        last = expected.splitlines()[-1]
        with process.stdout as lines:
            before = read_until(last, lines)
            process.send_signal(signal.SIGINT)
            before += lines.read()
        impatience.cancel()
        assert re.search(".+".join(map(re.escape, expected.rstrip().split("..."))), before, re.DOTALL), before
        assert process.wait(PATIENCE) == 0


class WarmPython:
    """An interpreter that has imported Django, and runs commands in processes of its own."""

    def __init__(self, python: str, path: Path) -> None:
        self._process = subprocess.Popen(
            [python, "-P", WARM_PYTHON], env=environment(path), text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        atexit.register(self._end)

    def run(self, arguments: list[str], folder: Path) -> tuple[int, str]:
        """Run ``python ARGUMENTS`` in this folder to its end; return the exit code and what it printed."""
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.NamedTemporaryFile("r") as output:
            command = {"arguments": arguments, "folder": str(folder), "output": output.name}
            print(json.dumps(command), file=self._process.stdin, flush=True)
            impatience = Timer(PATIENCE, os.killpg, (self._process.pid, signal.SIGKILL))
            impatience.start()
            answer = self._process.stdout.readline()
            impatience.cancel()
            printed = output.read()
        assert answer, f"{arguments} did not end\n{printed}"
        return int(answer), printed

    def _end(self) -> None:
        self._process.communicate()


@cache
def warm_python(python: str, path: Path) -> WarmPython:
    """Return the one process that runs the commands of this interpreter, with the package of this folder."""
    return WarmPython(python, path)


def read_until(expected: str, lines: Iterator[str]) -> str:
    """Read lines until one has these words: the end of a printed line follows later, after what other threads print."""
    before = ""
    for line in lines:
        before += line
        if expected in line:
            break
    return before


def commands(block: Block) -> list[str]:
    """Return the commands in it; an unknown program is an error of the page."""
    if block.language != "sh":
        return []
    lines = block.text.replace("\\\n", "").splitlines()  # a backslash continues a line, as in a shell
    return [line for line in lines if not line.startswith(DONE_BEFORE)]


def arguments(command: str, python: str = sys.executable) -> list[str]:
    program, *rest = shlex.split(command, comments=True)
    programs = {"python": [python], "django-admin": [python, "-m", "django"]}
    return [*programs[program], *rest]


def environment(path: Path = ROOT) -> dict[str, str]:
    """Return the environment of a newcomer's shell: the package is installed, nothing else is known."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DJANGO", "DATABASE_URL", "DDT"))}
    return {**kept, "PYTHONPATH": str(path), "PYTHONUNBUFFERED": "1"}
