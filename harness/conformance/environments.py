"""The interpreter that runs a suite: this one, or one with another Django in an environment of its own."""

import subprocess
import sys
from pathlib import Path

from harness import ROOT
from harness.conformance.suites import Suite
from harness.servers.downloads import download

TIMEOUT = 600.0
"""Seconds that an installation may take."""
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


def interpreter_for(suite: Suite, folder: Path) -> str | None:
    """Return the path of the interpreter; None if the package of the suite is not installed.

    The environment is made below ``folder``, unless it is there.
    """
    if not suite.django:
        return sys.executable if _has(sys.executable, suite.framework) else None
    python = folder / f"environment-{suite.django}" / "bin" / "python"
    if not _has(str(python), suite.framework):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(python.parents[1])], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        packages = [f"Django=={suite.django}.*", suite.package, "psycopg[binary]"]
        command = [*pip, "--editable", f"{ROOT}[mysql,postgres]", *packages]
        download(command, what_for=f"An environment with Django {suite.django}", timeout=TIMEOUT)
    return str(python)


def version_of(package: str, python: str) -> str:
    """Return the version of a package in the environment of this interpreter."""
    words = [python, "-c", VERSION, package]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _has(python: str, module: str) -> bool:
    if not Path(python).exists():
        return False
    return not subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode
