"""Three hosts on one machine: each is a process, and one of them is killed."""

import subprocess
import sys
from queue import Queue
from threading import Thread

HOSTS = ["web1", "web2", "web3"]
said = Queue()


def start(host, *command):
    process = subprocess.Popen([sys.executable, "manage.py", *command], stdout=subprocess.PIPE, text=True)
    Thread(target=listen, args=(host, process)).start()
    return process


def listen(host, process):
    for line in process.stdout:
        said.put((host, line.strip()))


def hear(words):
    """Print what the hosts say until one of them says this; return its name."""
    while True:
        host, line = said.get(timeout=60)
        print(f"{host}: {line}")
        if words in line:
            return host


def show_digest():
    print("Cron starts the same job on three hosts.")
    for host in HOSTS:
        start(host, "send_digest")
    for _ in HOSTS:
        hear("digest")


def show_feed():
    print("Three hosts run the same daemon.")
    daemons = {"web1": start("web1", "read_feed", "web1")}
    hear("reading")
    for host in HOSTS[1:]:
        daemons[host] = start(host, "read_feed", host)
    hear("standing by")
    hear("standing by")
    hear("entries are read")

    print("web1 loses its power.")
    daemons.pop("web1").kill()
    second = hear("reading")
    hear("entries are read")

    print(f"{second} is stopped.")
    daemons.pop(second).terminate()
    third = hear("reading")
    hear("entries are read")

    daemons[third].terminate()
    print(f"{third} is stopped. That was all.")


show_digest()
show_feed()
