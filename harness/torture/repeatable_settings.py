"""Settings of executors whose connections to MariaDB or MySQL are REPEATABLE READ, as the server has it by default."""

from harness.torture.settings import *  # noqa: F403
from harness.torture.settings import DATABASES

DATABASES["default"]["OPTIONS"]["isolation_level"] = "repeatable read"
