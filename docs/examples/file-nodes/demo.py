"""Three nodes on one machine: each is an executor, and one of them is killed in its work and comes back."""

import os
import subprocess
import sys
from pathlib import Path
from queue import Queue
from threading import Thread

FOLDERS = {"shared": 12, "w1": 2, "w2": 2, "w3": 2}
said = Queue()
nodes = []


def make_files():
    for folder, count in FOLDERS.items():
        path = Path("files") / folder
        path.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (path / f"{number}.txt").write_text("some words\n" * (number + 1))


def manage(*command, **environment):
    command = [sys.executable, "-u", "manage.py", *command]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def start_node(name, **environment):
    node = manage(
        "starttask", "--name", name, "--queues", f"shared,{name}", "--threads=1", "-v0", NODE=name, **environment
    )
    nodes.append(node)
    Thread(target=listen, args=[node], daemon=True).start()
    return node


def listen(node):
    for line in node.stdout:
        said.put(line.split())


def wait_until_read(count):
    """Wait until the nodes have read this number of different files."""
    done = set()
    while len(done) < count:
        action, file = said.get(timeout=60)
        if action == "done":
            done.add(file)


def show():
    print("w1, which is slow, begins to read, and loses its power.")
    w1 = start_node("w1", SECONDS_PER_FILE="600")
    said.get(timeout=60)
    w1.kill()

    print("w2 and w3 read all files but those on the disk of w1.")
    start_node("w2")
    start_node("w3")
    wait_until_read(16)

    print("w1 comes back, and reads its own.")
    start_node("w1")
    wait_until_read(2)


make_files()
print(manage("offerfiles").communicate()[0].strip())
try:
    show()
finally:
    for node in nodes:
        node.terminate()
print(manage("starttask", "--queues", "index", "--drain").communicate()[0].splitlines()[-1])
