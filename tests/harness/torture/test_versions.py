"""Which version is upgraded from, and how a process comes to have it."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from harness.torture import versions
from harness.torture.versions import MIGRATIONS, PACKAGE

__test__ = settings.DDT_DATABASE == "sqlite"  # needs no database
WHEEL = "django_delayed_tasks-0.0.7-py3-none-any.whl"


class Project:
    """A repository with a package of this name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--initial-branch", "main")

    def git(self, *words: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run(["git", *name, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, path: str, text: str = "") -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def commit(self, **files: str) -> str:
        """Commit what there is, with these migrations; return the commit."""
        for name, text in files.items():
            self.write(f"{MIGRATIONS}/{name.removeprefix('m')}.py", text)
        self.write(f"{PACKAGE}/__init__.py", f"# {len(list(self.folder.rglob('*')))}")
        self.git("add", "--all")
        self.git("commit", "--allow-empty", "--message", "some")
        return self.git("rev-parse", "HEAD")

    def default(self) -> str:
        return self.git("rev-parse", versions.commit_before())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setattr(versions, "ROOT", folder)
    return Project(folder)


def test_the_default_is_the_newest_commit_with_fewer_migrations(project: Project) -> None:
    project.commit(m0001_one="1")
    before = project.commit()
    project.commit(m0002_two="2")
    project.commit()
    assert project.default() == before


def test_a_migration_that_is_not_committed_counts(project: Project) -> None:
    project.commit(m0001_one="1")
    head = project.commit(m0002_two="2")
    project.write(f"{MIGRATIONS}/0003_three.py")
    assert project.default() == head


def test_a_commit_whose_migrations_were_changed_since_cannot_be_upgraded(project: Project) -> None:
    project.commit(m0001_one="1")
    project.commit(m0002_two="2")
    before = project.commit(m0001_one="another")
    project.commit()
    project.git("commit", "--amend", "--message", "the newest")
    assert project.default() == before


def import_from(folder: Path) -> str:
    """Return where a process with this folder on its path finds the package."""
    found = subprocess.run(
        [sys.executable, "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)"],
        env={**os.environ, **versions.environment(folder)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return found.stdout.strip()


def of_commit(project: Project) -> str:
    commit = project.commit(m0001_one="1")
    project.write(f"{PACKAGE}/later.py")
    return commit


def of_wheel(project: Project) -> str:
    about = f"{PACKAGE}-0.0.7.dist-info"
    files = {
        f"{PACKAGE}/__init__.py": "",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: django-delayed-tasks\nVersion: 0.0.7\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(project.folder / WHEEL, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return str(project.folder / WHEEL)


@pytest.mark.parametrize(("make", "name"), [(of_commit, "commit "), (of_wheel, WHEEL)])
def test_a_process_has_the_version_that_it_was_given(
    make: Callable[[Project], str], name: str, project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "before"
    assert versions.unpack(make(project), folder).startswith(name)
    assert import_from(folder) == str(folder / PACKAGE / "__init__.py")
    assert not (folder / PACKAGE / "later.py").exists()


@pytest.mark.parametrize("version", ["no-such-commit", "missing.whl"])
def test_a_version_that_is_not_there_is_named(version: str, project: Project, tmp_path: Path) -> None:
    with pytest.raises(versions.VersionError, match=version):
        versions.unpack(version, tmp_path / "before")
