#!/usr/bin/env python
"""The command line of the shop: ``python testproject/manage.py runserver``, ``… starttask``."""

import os
import sys
from pathlib import Path


def main() -> None:
    # The folder above is the import root, so that the shop is `testproject.shop` here as everywhere else.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
