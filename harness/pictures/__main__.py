"""``make pictures``: take the pictures of the documentation again. ``python -m harness.pictures [FOLDER]``."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import django
from django.core.management import call_command
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from harness import ROOT
from harness.browser import chromium, resize
from harness.servers.server import free_port

PICTURES: Final = ROOT / "docs/images"
WIDTH: Final = 1280
PASSWORD: Final = "only for pictures"
PATIENCE: Final = 60.0  # seconds
SETTLED: Final = 1.0
"""Seconds that the banner takes to come, and more."""


def main() -> None:
    """Fill a database, serve the admin, and take a picture of each page."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"DDT_PICTURES": f"{place}/db.sqlite3", "DJANGO_SETTINGS_MODULE": "harness.pictures.settings"}
        fill()
        with served() as site, chromium(WIDTH) as chrome:
            log_in(chrome, site)
            for name, (address, height) in pages().items():
                take(chrome, site + address, folder / f"{name}.png", height)
                print(folder / f"{name}.png")


def fill() -> None:
    django.setup()
    call_command("migrate", verbosity=0)

    from django.contrib.auth.models import User

    from django_delayed_tasks.executor.membership.surveyor import take_survey
    from django_delayed_tasks.store.schedules.recurrence import read_now
    from harness.pictures import scene

    User.objects.create_superuser("boss", password=PASSWORD)
    scene.fill(read_now(scene.ALIAS))
    take_survey(scene.ALIAS)


def pages() -> dict[str, tuple[str, int]]:
    """Return the address of each picture's page, and the height of the picture; 0 for all of the page."""
    from django.urls import reverse

    from django_delayed_tasks.models import Task

    failed = Task.objects.filter(last_error__contains="ConnectTimeout").latest("claim_at")
    return {
        "overview": (reverse("admin:django_delayed_tasks_overview_changelist"), 1480),
        "errors": (reverse("admin:django_delayed_tasks_task_errors"), 0),
        "task": (reverse("admin:django_delayed_tasks_task_change", args=[failed.pk]), 0),
    }


@contextmanager
def served() -> Iterator[str]:
    """Run the web server; yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "django", "runserver", f"127.0.0.1:{port}", "--noreload", "--insecure"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + PATIENCE
            while not is_open(port):
                assert time.monotonic() < until, "the web server does not answer"
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def log_in(chrome: Chrome, site: str) -> None:
    chrome.get(f"{site}/admin/login/")
    chrome.find_element(By.NAME, "username").send_keys("boss")
    chrome.find_element(By.NAME, "password").send_keys(PASSWORD)
    chrome.find_element(By.CSS_SELECTOR, "[type=submit]").click()


def take(chrome: Chrome, address: str, path: Path, height: int) -> None:
    """Take a picture of a page, without scroll bars."""
    resize(chrome, WIDTH, height or 600)
    chrome.get(address)
    chrome.execute_script("document.documentElement.style.scrollbarWidth = 'none'")
    time.sleep(SETTLED)
    if not height:
        bottom = "return Math.ceil(document.querySelector('#content').getBoundingClientRect().bottom)"
        resize(chrome, WIDTH, chrome.execute_script(bottom))
    chrome.save_screenshot(str(path))


if __name__ == "__main__":
    main()
