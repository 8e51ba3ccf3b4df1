"""Settings of the driver and of executors on a cluster of MySQL or MariaDB nodes.

DDT_CLUSTER_HOSTS is a JSON list of the hosts that they fail over to, DDT_CLUSTER_WAITS the statement by which a session
sees what was committed on other nodes; without one, only what the library decides waits for that.
"""

import json
import os

from harness.torture.databases.clustered import TIMEOUTS
from harness.torture.settings import *  # noqa: F403
from harness.torture.settings import DATABASES

HOSTS = json.loads(os.environ.get("DDT_CLUSTER_HOSTS", "[]"))

if HOSTS:
    DATABASES["default"]["ENGINE"] = "django_delayed_tasks.backends.galera"
    DATABASES["default"]["OPTIONS"]["hosts"] = HOSTS
if waits := os.environ["DDT_CLUSTER_WAITS"]:
    DATABASES["default"]["OPTIONS"]["init_command"] = waits
DATABASES["default"]["OPTIONS"].update(TIMEOUTS)
