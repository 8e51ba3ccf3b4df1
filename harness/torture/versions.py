"""Another version of the package: a commit or a wheel, in a folder that is the first on the path of a process."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from harness import ROOT

PACKAGE = "django_delayed_tasks"
MIGRATIONS = f"{PACKAGE}/migrations"


class VersionError(Exception):
    """Raised when there is no such version; the message says what to do."""


def unpack(version: str, folder: Path) -> str:
    """Put the package as it is in a version into ``folder``; return what to call that version.

    Args:
        version: a commit, the file of a wheel, or "" for :func:`commit_before`.
        folder: where it goes; it is made here.
    """
    folder.mkdir()
    if version.endswith(".whl"):
        _install(Path(version), folder)
        return Path(version).name
    commit = version or commit_before()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit, PACKAGE))) as archive:
        archive.extractall(folder, filter="data")
    return f"commit {_git('rev-parse', '--short', commit).decode().strip()}"


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment of a process that imports the package from this folder."""
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def commit_before() -> str:
    """Return the newest commit to which the working tree adds migrations, or the one before HEAD if there is none.

    That commit's migrations are all here, unchanged: a database with others cannot be upgraded.
    """
    here = _migrations_here()
    changed = _git("log", "--format=%H", "--", MIGRATIONS).decode().split()
    for commit in ["HEAD", *(f"{one}~1" for one in changed)]:
        then = _migrations_of(commit)
        if then and then.items() < here.items():
            return commit
    return "HEAD~1"


def _migrations_here() -> dict[str, str]:
    paths = sorted(str(path.relative_to(ROOT)) for path in (ROOT / MIGRATIONS).glob("[0-9]*.py"))
    return dict(zip(paths, _git("hash-object", *paths).decode().split(), strict=True))


def _migrations_of(commit: str) -> dict[str, str]:
    """Return the hash of each migration by its path; none if there is no such commit."""
    try:
        lines = _git("ls-tree", "-r", "--full-tree", commit, MIGRATIONS).decode().splitlines()
    except VersionError:
        return {}
    found = {path: about.split()[2] for about, _, path in (line.partition("\t") for line in lines)}
    return {path: of for path, of in found.items() if Path(path).name[0].isdigit()}


def _git(*words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise VersionError("git is missing: name the file of a wheel, FROM=path.whl") from None
    except subprocess.CalledProcessError as error:
        raise VersionError(f"git {' '.join(words)}: {error.stderr.decode().strip()}; name a commit, FROM=...") from None


def _install(wheel: Path, folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    done = subprocess.run([*pip, "--no-deps", "--target", folder, wheel], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise VersionError(f"{wheel} cannot be installed:\n{done.stderr}")
