"""Four hosts on one machine, each with 25 crawlers. One of them is killed while its crawlers hold proxies."""

import os
import subprocess
import sys
import time
from pathlib import Path

HOSTS = 4
HELD = 25  # connections: one for each crawler of the first host


def start(**environment):
    return subprocess.Popen([sys.executable, "manage.py", "crawl"], env={**os.environ, **environment})


print("The crawlers of the first host hold 25 proxies, and it loses its power.")
first = start(SECONDS_PER_PAGE="600")
while len(list(Path("network").glob("*"))) < HELD:
    if first.poll() is not None:
        sys.exit("The first host has ended too early.")
    time.sleep(0.05)
first.kill()

print("A hundred crawlers share the other proxies, and soon all of them.", flush=True)
hosts = [start() for _ in range(HOSTS)]
sys.exit(max(host.wait() for host in hosts))
