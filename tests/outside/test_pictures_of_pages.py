"""``make pictures`` takes the pictures of the admin that the documentation shows."""

import struct
from pathlib import Path

from harness.browser import programs
from harness.pictures.__main__ import PHONE, PICTURES, WIDTH
from tests.harness.making import make


def test_it_takes_every_picture_that_is_there(tmp_path: Path) -> None:
    programs()
    made = make("pictures", PICTURES=str(tmp_path))
    assert made.returncode == 0, made.stdout
    taken = {path.name: size_of(path) for path in tmp_path.iterdir()}
    kept = {path.name: size_of(path) for path in PICTURES.iterdir()}
    assert {name: width for name, (width, _) in taken.items()} == {name: width for name, (width, _) in kept.items()}
    assert {width for width, _ in taken.values()} == {PHONE, WIDTH, 1920}
    assert all(height >= 400 for _, height in taken.values())


def size_of(path: Path) -> tuple[int, int]:
    """Return the width and the height of a PNG."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height
