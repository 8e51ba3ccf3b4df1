"""MariaDB; also with another default character set, as databases of old projects have."""

from pathlib import Path

from harness.torture.databases.served import Served


def create(folder: Path, character_set: str = "") -> Served:
    return Served("mariadb", character_set)
