"""Settings of a project whose LOGGING is that of docs/how-to/operate.md; mails are files of the shared folder."""

import os
from typing import Any

import django

from harness.processes_of_folder import VARIABLE
from tests import pages
from tests.processes.settings import *  # noqa: F403

FILES = "django.core.mail.backends.filebased.EmailBackend"
FOLDER = os.path.join(os.environ[VARIABLE], "mails")

OPERATE = pages.ROOT / "docs/how-to/operate.md"

[_example] = [block.text for block in pages.blocks(OPERATE, "python") if block.text.startswith("LOGGING = ")]
_names: dict[str, Any] = {}
exec(_example, _names)
LOGGING = _names["LOGGING"]

ADMINS: list[Any]
if django.VERSION >= (6, 1):
    ADMINS = ["admin@example.com"]
    MAILERS = {"default": {"BACKEND": FILES, "OPTIONS": {"file_path": FOLDER}}}
else:
    ADMINS = ["admin@example.com"] if django.VERSION >= (6, 0) else [("Admin", "admin@example.com")]
    EMAIL_BACKEND = FILES
    EMAIL_FILE_PATH = FOLDER
