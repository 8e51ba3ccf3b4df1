"""The admin in a real browser: an operator's night, and every page at three widths."""

import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from django_delayed_tasks import Task, add_task
from django_delayed_tasks.handlers import register_task_handler, registry
from django_delayed_tasks.models import Executor, TaskRun
from django_delayed_tasks.states import TaskStatus
from tests.admin.rows import list_of
from tests.outside import browser_handlers
from tests.outside.browser import chromium, complaints_of, text_of, wait
from tests.processes.children import Child
from tests.waiting import wait_until

HOUR = timedelta(hours=1)

Start = Callable[..., Child]

pytestmark = pytest.mark.django_db(transaction=True, available_apps=None)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    with registry.preserved():
        registry.clear()
        register_task_handler(browser_handlers.Fetch)
        register_task_handler(browser_handlers.Charge)
        yield


@pytest.fixture
def start(process_environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts ``python -m django`` with these arguments; what was started ends with the test."""
    children: list[Child] = []
    more = {"DJANGO_SETTINGS_MODULE": "tests.outside.browser_settings", browser_handlers.MENDED: f"{tmp_path}/mended"}

    def run(*arguments: str) -> Child:
        log = tmp_path / f"{len(children)}.log"
        children.append(Child(["-m", "django", *arguments], process_environment | more, log, None))
        return children[-1]

    yield run
    for child in children:
        child.process.kill()
        child.process.wait()
        if child.process.stdin:
            child.process.stdin.close()


@pytest.fixture
def site(start: Start) -> str:
    """The address of the web server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start("runserver", f"127.0.0.1:{port}", "--noreload", "--insecure")
    wait_until(lambda: is_open(port))
    return f"http://127.0.0.1:{port}"


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def chrome(site: str) -> Iterator[Chrome]:
    """A browser in which an administrator has logged in."""
    User.objects.create_superuser("boss", password="secret")
    with chromium() as chrome:
        chrome.get(site + reverse("admin:index"))
        chrome.find_element(By.NAME, "username").send_keys("boss")
        chrome.find_element(By.NAME, "password").send_keys("secret")
        press(chrome, "[type=submit]")
        wait(chrome, lambda page: "Log out" in page.page_source, "not logged in")
        yield chrome


def press(chrome: Chrome, selector: str) -> None:
    chrome.find_element(By.CSS_SELECTOR, selector).click()


def shows(chrome: Chrome, *texts: str) -> None:
    """Wait until the page shows these texts."""
    wait(chrome, lambda page: all(text in text_of(page) for text in texts), f"the page lacks {texts}")


def row_of(chrome: Chrome, name: str) -> Any:
    """The row of a queue."""
    return chrome.find_element(By.XPATH, f"//tr[.//a[text()='{name}']]")


def test_a_night(chrome: Chrome, site: str, start: Start, tmp_path: Path) -> None:
    web1 = start("starttask", "--name", "web1", "--exclude-queues", "pay").wait_until_ready()
    web2 = start("starttask", "--name", "web2", "--queues", "pay").wait_until_ready()

    # Run a task now, and watch it settle.
    waiting = add_task(Task(biz_code="fetch-page", biz_num="https://example.org/1", when=timezone.now() + HOUR))
    chrome.get(f"{site}{reverse('admin:django_delayed_tasks_task_change', args=[waiting.task_id])}")
    shows(chrome, "Waits until")
    press(chrome, "[name=_run_now]")
    shows(chrome, "done", "web1", "fetch-page")

    # Retry one that failed.
    add_task(Task(biz_code="charge-card", biz_num="order 17"))
    wait_until(lambda: Task.objects.filter(status=TaskStatus.FAILED).exists())
    chrome.get(f"{site}{list_of('task')}")
    shows(chrome, "order 17", "ConnectionError: the bank does not answer")
    chrome.find_element(By.PARTIAL_LINK_TEXT, "order 17").click()
    shows(chrome, "after 1 attempt.", "Attempt 1 on web2")
    (tmp_path / "mended").touch()
    press(chrome, "[name=_retry_failed]")
    shows(chrome, "done", "web2", "order 17")

    # Pause a queue: nothing of it starts.
    chrome.get(f"{site}{list_of('pausedqueue')}")
    row_of(chrome, "default").find_element(By.TAG_NAME, "button").click()
    shows(chrome, "is paused: tasks already claimed will still run")
    add_task(Task(biz_code="fetch-page", biz_num="held back"))
    add_task(Task(biz_code="fetch-page", biz_num="of another queue", queue="other"))
    wait_until(lambda: TaskRun.objects.filter(biz_num="of another queue").exists())
    chrome.get(f"{site}{list_of('task')}")
    shows(chrome, "held back", "late by")
    assert not TaskRun.objects.filter(biz_num="held back").exists()

    # Kill the only executor of a queue.
    web2.process.kill()
    Executor.objects.filter(name="web2").update(expires_at=timezone.now())  # as its lease would run out later
    chrome.get(f"{site}{list_of('pausedqueue')}")
    assert "no executor" in row_of(chrome, "pay").text
    assert "web1" in row_of(chrome, "default").text
    chrome.get(f"{site}{list_of('executor')}")
    wait_until(lambda: Executor.objects.filter(name="web2", alive=None).exists())
    chrome.refresh()
    shows(chrome, "web2", "crashed")

    # Read a Chinese page.
    chrome.add_cookie({"name": "django_language", "value": "zh-hans"})
    chrome.get(f"{site}{list_of('task')}")
    wait(chrome, lambda page: page.find_element(By.TAG_NAME, "html").get_attribute("lang") == "zh-hans", "not Chinese")
    assert complaints_of(chrome) == []
    assert web1.process.poll() is None
