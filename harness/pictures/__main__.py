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
from typing import Final, NamedTuple

import django
from django.core.management import call_command
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from harness import ROOT
from harness.browser import chromium, resize
from harness.servers.server import free_port

PICTURES: Final = ROOT / "docs/images"
WIDTH: Final = 1280
PHONE: Final = 390
PASSWORD: Final = "only for pictures"
PATIENCE: Final = 60.0  # seconds
SETTLED: Final = 1.0
"""Seconds that the banner takes to come, and more."""


def main() -> None:
    """Fill a database, serve the admin, and take a picture of each page."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"DDT_PICTURES": f"{place}/db.sqlite3", "DJANGO_SETTINGS_MODULE": "harness.pictures.settings"}
        fill()
        with served() as site, chromium(WIDTH) as chrome:
            log_in(chrome, site)
            for name, page in pages().items():
                take(chrome, site, page, folder / f"{name}.png")
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


class Page(NamedTuple):
    """What a picture shows, and how: ``height`` is 0 for all of the page, ``language`` one of Django's codes."""

    address: str
    height: int = 0
    width: int = WIDTH
    is_dark: bool = False
    language: str = "en"


def pages() -> dict[str, Page]:
    """Return the page of each picture, by the picture's name."""
    from django.urls import reverse

    from django_delayed_tasks.models import Task

    failed = Task.objects.filter(last_error__contains="ConnectTimeout").latest("claim_at")
    overview = reverse("admin:django_delayed_tasks_overview_changelist")
    tasks = reverse("admin:django_delayed_tasks_task_changelist")
    return {
        "overview": Page(overview, 1480),
        "overview-dark": Page(overview, 900, width=1920, is_dark=True),
        "overview-phone": Page(overview, 844, width=PHONE),
        "overview-zh": Page(overview, 1480, language="zh-hans"),
        "tasks": Page(tasks, 900),
        "tasks-phone": Page(tasks, 844, width=PHONE, is_dark=True),
        "errors": Page(reverse("admin:django_delayed_tasks_task_errors")),
        "task": Page(reverse("admin:django_delayed_tasks_task_change", args=[failed.pk])),
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


def take(chrome: Chrome, site: str, page: Page, path: Path) -> None:
    """Take a picture of a page, without scroll bars."""
    resize(chrome, page.width, page.height or 600)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if page.is_dark else "light"}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    chrome.add_cookie({"name": "django_language", "value": page.language})
    chrome.get(site + page.address)
    chrome.execute_script("document.documentElement.style.scrollbarWidth = 'none'")
    time.sleep(SETTLED)
    if not page.height:
        bottom = "return Math.ceil(document.querySelector('#content').getBoundingClientRect().bottom)"
        resize(chrome, page.width, chrome.execute_script(bottom))
    assert chrome.save_screenshot(str(path)), f"{path} cannot be written"


if __name__ == "__main__":
    main()
