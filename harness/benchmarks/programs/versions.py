"""The name and version of the database."""

import json

import django
from django.db import connection

if __name__ == "__main__":
    django.setup()
    version = ".".join(map(str, connection.get_database_version()))
    print(json.dumps(f"{connection.display_name} {version}"))
