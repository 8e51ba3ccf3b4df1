"""Commands whose work is not their output: they continue, and end as usual, when it cannot be received any more.

The reader of a pipe may end, such as a shipper of logs that is restarted, and a disk may be full. What is printed then
is lost: it must not keep an executor from starting, change an exit code, or make a run fail after its work is done.
"""

import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from django.core.management.base import BaseCommand, OutputWrapper


class SteadyCommand(BaseCommand):
    """A command that no error of its standard streams can end; as the command line of its process, not when called."""

    def run_from_argv(self, argv: list[str]) -> None:
        sys.stdout, sys.stderr = steady(sys.stdout), steady(sys.stderr)
        self.stdout, self.stderr = OutputWrapper(sys.stdout), OutputWrapper(sys.stderr)
        self.stderr.style_func = self.style.ERROR
        super().run_from_argv(argv)


def steady(stream: TextIO | None) -> TextIO:
    """Return a stream to the same file, to which writing never fails; ``stream`` itself if it is no stream of a file.

    It is None where the process has begun with this descriptor closed.
    """
    if stream is None:
        return open(os.devnull, "w")
    buffer = getattr(stream, "buffer", None)
    file = getattr(buffer, "raw", buffer)
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(file, io.FileIO):
        return stream
    with suppress(OSError):
        stream.flush()
    steady_file = _SteadyFile(file.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        steady_file if file is buffer else io.BufferedWriter(steady_file),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _SteadyFile(io.FileIO):
    def write(self, data: Any) -> int:
        """Write the data, or lose it."""
        written = None
        with suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written  # None: it would have to wait
