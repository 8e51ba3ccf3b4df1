"""A reader who follows the README of an example, in a copy of its folder."""

import contextlib
import doctest
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.newcomer import PATIENCE, arguments, environment
from tests.pages import ROOT, Block, blocks

EXAMPLES = ROOT / "docs/examples"
COMMENT = re.compile(r"^# (\S+\.py)\n")


@dataclass(frozen=True)
class Example:
    """An example in ``folder``, a copy that the test may change."""

    folder: Path

    def follow(self) -> None:
        """Run each command of the README, in order, and compare what it prints and quotes with what is there."""
        printed = ""
        for block in blocks(self.folder / "README.md"):
            if block.language == "sh":
                printed = "".join(self.run(command) for command in block.text.splitlines())
            elif block.language == "text":
                assert is_like(printed, block.text), f"expected:\n{block.text}\nprinted:\n{printed}"
            elif block.language == "python":
                self.check_quotation(block)

    def run(self, command: str) -> str:
        """Run it to its end, which must be a good one; return what it printed. No process that it started remains."""
        process = subprocess.Popen(
            arguments(command), cwd=self.folder, env=environment(), start_new_session=True,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, f"{command}\n{printed}"
        return printed

    def evaluate(self, expression: str) -> str:
        """Print the value of an expression in the project's shell; without double quotes."""
        return self.run(f'python manage.py shell -v 0 -c "{expression}"').strip()

    def check_quotation(self, block: Block) -> None:
        """The README quotes the file that it names, letter by letter."""
        assert COMMENT.sub("", block.text) in (self.folder / block.file).read_text(), block.text


def is_like(printed: str, expected: str) -> bool:
    """Whether it ends with the expected text, in which "..." stands for anything, as in a doctest."""
    return doctest.OutputChecker().check_output(f"...{expected}", printed, doctest.ELLIPSIS)
