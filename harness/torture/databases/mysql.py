"""MySQL; also with another default character set."""

from pathlib import Path

from harness.torture.databases.served import Served


def create(folder: Path, character_set: str = "") -> Served:
    return Served("mysql", character_set)
