"""Spin and a C compiler: found, installed where that is possible, or asked for."""

import shutil

from harness.servers.packages import install
from harness.verification.spin import PROGRAMS, SpinError


def missing() -> list[str]:
    """Return the programs that are not on PATH; their names are those of Debian's packages, too."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def provide() -> None:
    """Install what is missing.

    Raises:
        CannotBeHad: it cannot be installed from here; the text says what to do.
    """
    wanted = missing()
    if not wanted:
        return
    install([*wanted, "libc6-dev"] if "gcc" in wanted else wanted, "the verification")
    if wanted := missing():
        raise SpinError(f"{' '.join(wanted)} was installed, but is not on PATH.")
