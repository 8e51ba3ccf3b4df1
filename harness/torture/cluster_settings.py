"""Settings of executors on a Galera cluster. DDT_GALERA_HOSTS: a JSON list of the hosts that they fail over to."""

import json
import os

from harness.torture.settings import *  # noqa: F403
from harness.torture.settings import DATABASES

HOSTS = json.loads(os.environ.get("DDT_GALERA_HOSTS", "[]"))
TIMEOUTS = {"connect_timeout": 3, "read_timeout": 20, "write_timeout": 20}

if HOSTS:
    DATABASES["default"]["ENGINE"] = "django_delayed_tasks.backends.galera"
    DATABASES["default"]["OPTIONS"]["hosts"] = HOSTS
DATABASES["default"]["OPTIONS"].update(TIMEOUTS, init_command="SET SESSION wsrep_sync_wait = 7")
