"""The cells of the matrix are the versions that the package says it supports."""

import tomllib
from itertools import product
from pathlib import Path

import pytest

import noxfile

ROOT = Path(noxfile.__file__).parent


def named_in_classifiers(framework: str) -> list[str]:
    """The versions of `framework` that the package's metadata names."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [classifier.removeprefix(f"{framework} :: ") for classifier in classifiers]
    return [version for version in found if version.replace(".", "", 1).isdigit() and "." in version]


def test_every_supported_pair_is_a_cell() -> None:
    assert named_in_classifiers("Programming Language :: Python") == list(noxfile.PYTHONS)
    assert named_in_classifiers("Framework :: Django") == list(noxfile.DJANGOS)
    assert set(noxfile.NO_CELLS) < set(product(noxfile.PYTHONS, noxfile.DJANGOS))
    assert noxfile.ON_POSTGRES in set(product(noxfile.PYTHONS, noxfile.DJANGOS)) - set(noxfile.NO_CELLS)


@pytest.mark.parametrize("path", [*noxfile.LEFT_OUT, *noxfile.ENGINE, "harness/scripts/find_python.sh"])
def test_what_a_cell_names_is_there(path: str) -> None:
    """Pytest ignores a path to ignore that is not there."""
    assert (ROOT / path).exists()
