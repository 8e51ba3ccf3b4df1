"""Have the newest Python that the matrix runs on: the machine's own, or Debian sid's in a folder of its own.

``python -m harness.scripts.python_sid`` prints its path, and says on stderr why there is none. The script
``harness/scripts/find_python.sh`` finds the one in the folder too.
"""

import subprocess
import sys
from pathlib import Path

from harness.servers.debian_folder import Contents, debian_folder
from harness.servers.packages import find_program, install
from harness.servers.processes import ServerError

VERSION = "3.14"
PROGRAM = f"usr/bin/python{VERSION}"
FIND = Path(__file__).with_name("find_python.sh")


def use_own_libraries(half_made: Path, folder: Path) -> None:
    """Have the Python in `half_made` run outside of it, with the libraries that will be in `folder`.

    sid's libraries are newer than the machine's, so the program names its own loader and the folders to search. Unlike
    a variable of the environment, this changes nothing for the programs that it starts.
    """
    if find_program(["patchelf"]) is None:
        install(["patchelf"], f"Python {VERSION}")
    program = str(half_made / PROGRAM)
    loader = _patchelf("--print-interpreter", program)
    libraries = [str(folder / path.relative_to(half_made)) for path in half_made.glob("usr/lib/*-linux-gnu*")]
    # An RPATH, since a RUNPATH is not searched for what the libraries themselves need.
    _patchelf("--set-interpreter", f"{folder}{loader}", "--force-rpath", "--set-rpath", ":".join(libraries), program)


def _patchelf(*arguments: str) -> str:
    program = find_program(["patchelf"])
    assert program is not None
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise ServerError(f"patchelf failed:\n{done.stderr}")
    return done.stdout.strip()


PYTHON = Contents(
    f"Python {VERSION}",
    f"python{VERSION}",
    f"python{VERSION}-venv,python{VERSION}-dev",
    (f"/{PROGRAM}", "-c", "import ctypes, sqlite3, ssl, sys; print(sys.version)"),
    rf"^{VERSION}\.",
    "Its cells of the matrix are left out.",
    use_own_libraries,
)


def find_or_make() -> str:
    """The path of the interpreter; ServerError where there is none and none can be made."""
    found = subprocess.run([FIND, VERSION], capture_output=True, text=True).stdout.strip()
    return found or str(debian_folder(PYTHON) / PROGRAM)


def main() -> int:
    try:
        print(find_or_make())
    except ServerError as error:
        print(f"harness.scripts.python_sid: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
