"""A shop changes from a task table of its own to django-delayed-tasks, without a pause."""

import subprocess
import sys


def start(*command):
    process = subprocess.Popen([sys.executable, "manage.py", *command], stdout=subprocess.PIPE, text=True)
    print(process.stdout.readline().strip(), flush=True)
    return process


def manage(*command):
    print("$ manage.py", *command, flush=True)
    subprocess.run([sys.executable, "manage.py", *command], check=True)


manage("placeorders", "A", "--as-before")
old_loop = start("oldloop")
try:
    # The new version is deployed. The migration moves what waits, while the old loop runs.
    manage("migrate", "-v", "0")

    # Both versions are running: not all web servers have the new one yet.
    manage("placeorders", "B", "--as-before")
    manage("placeorders", "C")
    manage("payorders", "A-0", "B-0", "C-0")
finally:
    # The old version is gone: what it has left is moved.
    old_loop.terminate()
    old_loop.wait()
manage("movetasks")
manage("movetasks")
manage("starttask", "--drain", "-v", "0")
