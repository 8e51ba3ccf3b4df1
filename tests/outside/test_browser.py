"""The admin in a real browser: an operator's night, and every page at three widths."""

import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone, translation
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from django_delayed_tasks import Task, add_task
from django_delayed_tasks.handlers import register_task_handler, registry
from django_delayed_tasks.models import Executor, TaskRun
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.sql.portions import PORTION
from harness.browser import chromium, resize
from tests.admin.rows import list_of, new_task
from tests.outside import browser_handlers
from tests.outside.browser import complaints_of, problems_of, text_of, wait
from tests.outside.every_page import every_page
from tests.processes.children import Child
from tests.waiting import wait_until

HOUR = timedelta(hours=1)

Start = Callable[..., Child]

WIDTHS = """
const hidden = [...document.querySelectorAll("#changelist .results")].map(list => list.scrollWidth - list.clientWidth);
return [document.documentElement.scrollWidth, hidden.filter(pixels => pixels > 1)];
"""
BANNER = "const banner = document.getElementById('ddt-banner'); return !banner || !banner.hidden"
"""Whether the page has what is wrong above it, which comes after the page."""

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
    return chrome.find_element(By.XPATH, f"//tr[.//a[.='{name}']]")


def test_a_night(chrome: Chrome, site: str, start: Start, tmp_path: Path) -> None:
    web1 = start("starttask", "--name", "web1", "--exclude-queues", "pay").wait_until_ready()
    web2 = start("starttask", "--name", "web2", "--queues", "pay").wait_until_ready()
    see_the_forecast(chrome, site)
    run_a_task_now(chrome, site)
    retry_a_failed_one(chrome, site, mended=tmp_path / "mended")
    pause_a_queue(chrome, site)
    cancel_all_that_match(chrome, site)
    kill_the_only_executor_of_a_queue(chrome, site, web2)
    read_a_chinese_page(chrome, site)
    assert complaints_of(chrome) == []
    assert web1.process.poll() is None
    web1.close()
    visit_every_page(chrome, site)


def see_the_forecast(chrome: Chrome, site: str) -> None:
    for number in range(3):
        add_task(Task(biz_code="fetch-page", biz_num=f"due {number}", when=timezone.now() + HOUR / 2))
    chrome.get(f"{site}{list_of('overview')}")
    shows(chrome, "Executors alive\n2", "What comes next", "fetch-page 3", "3 tasks are pending")
    picture = chrome.find_element(By.CSS_SELECTOR, "#ddt-forecast svg")
    assert picture.get_attribute("aria-label") == "Runs that become due in the next hour, by minute"
    # The bar has the height of the picture above its base, a color, and a text that is shown under the pointer.
    bar = picture.find_element(By.CSS_SELECTOR, "rect.ddt-c0")
    assert bar.size["height"] > 50
    assert bar.value_of_css_property("fill") == "rgb(63, 127, 196)"
    assert "fetch-page: 3" in str(picture.get_attribute("textContent"))

    # The page refreshes itself.
    add_task(Task(biz_code="charge-card", biz_num="order 16", when=timezone.now() + HOUR / 2))
    shows(chrome, "charge-card 1", "4 tasks are pending")

    # It pauses while it is hidden, and is current as soon as it is seen again.
    hide(chrome, True)
    wait(chrome, lambda page: page.find_element(By.ID, "ddt-live").text == "paused", "it is not paused")
    add_task(Task(biz_code="charge-card", biz_num="order 18", when=timezone.now() + HOUR / 2))
    hide(chrome, False)
    shows(chrome, "charge-card 2", "5 tasks are pending")


def hide(chrome: Chrome, is_hidden: bool) -> None:
    """Have the page believe that its tab is in the background, or is no longer."""
    hidden = f"{{configurable: true, value: {'true' if is_hidden else 'false'}}}"
    chrome.execute_script(f"Object.defineProperty(document, 'hidden', {hidden})")
    chrome.execute_script("document.dispatchEvent(new Event('visibilitychange'))")


def run_a_task_now(chrome: Chrome, site: str) -> None:
    waiting = add_task(Task(biz_code="fetch-page", biz_num="https://example.org/1", when=timezone.now() + HOUR))
    chrome.get(f"{site}{reverse('admin:django_delayed_tasks_task_change', args=[waiting.task_id])}")
    shows(chrome, "Waits until")
    press(chrome, "[name=_run_now]")
    shows(chrome, "done", "web1", "fetch-page")


def retry_a_failed_one(chrome: Chrome, site: str, mended: Path) -> None:
    add_task(Task(biz_code="charge-card", biz_num="order 17"))
    wait_until(lambda: Task.objects.filter(status=TaskStatus.FAILED).exists())
    chrome.get(f"{site}{list_of('task')}")
    shows(chrome, "order 17", "ConnectionError: the bank does not answer", "failed 1")
    chrome.find_element(By.PARTIAL_LINK_TEXT, "order 17").click()
    shows(chrome, "after 1 attempt.", "Attempt 1 on web2")
    mended.touch()
    press(chrome, "[name=_retry_failed]")
    shows(chrome, "done", "web2", "order 17")


def pause_a_queue(chrome: Chrome, site: str) -> None:
    """Nothing of the queue starts."""
    chrome.get(f"{site}{list_of('pausedqueue')}")
    row_of(chrome, "default").find_element(By.TAG_NAME, "button").click()
    shows(chrome, "is paused: tasks already claimed will still run")
    add_task(Task(biz_code="fetch-page", biz_num="held back"))
    add_task(Task(biz_code="fetch-page", biz_num="of another queue", queue="other"))
    wait_until(lambda: TaskRun.objects.filter(biz_num="of another queue").exists())
    chrome.get(f"{site}{list_of('task')}")
    shows(chrome, "held back", "late by")
    assert not TaskRun.objects.filter(biz_num="held back").exists()


def cancel_all_that_match(chrome: Chrome, site: str) -> None:
    """More than a page has, in one request; the user is asked before, with how many."""
    many = 2 * PORTION + 1
    select_all_of_the_queue_bulk(chrome, site, many)
    shows(chrome, f"{many:,} are selected.")
    press(chrome, "#content form button")
    shows(chrome, f"{many:,} tasks were cancelled")
    assert not Task.objects.filter(queue="bulk").exists()
    assert LogEntry.objects.filter(object_repr=f"fetch-page {many - 1}").exists()


def select_all_of_the_queue_bulk(chrome: Chrome, site: str, many: int) -> None:
    """Make them, and ask for them all to be cancelled; what follows is the question."""
    later = timezone.now() + HOUR
    Task._base_manager.bulk_create(
        new_task(f"{number}", later, biz_code="fetch-page", queue="bulk") for number in range(many)
    )
    chrome.get(f"{site}{list_of('task')}?queue=bulk")
    press(chrome, "#action-toggle")
    press(chrome, ".actions .question a")
    ask_to_cancel(chrome)


def ask_to_cancel(chrome: Chrome) -> None:
    """Ask for what is selected to be cancelled, and wait for the question."""
    press(chrome, "select[name=action] option[value=cancel]")
    press(chrome, "button[name=index]")
    wait(chrome, lambda page: page.find_elements(By.CSS_SELECTOR, "body.ddt-question"), "no question")


def kill_the_only_executor_of_a_queue(chrome: Chrome, site: str, executor: Child) -> None:
    """The overview says so, as do the pages of queues and executors and the banner on the other pages."""
    executor.process.kill()
    Executor.objects.filter(name="web2").update(expires_at=timezone.now())  # as its lease would run out later
    chrome.get(f"{site}{list_of('overview')}")
    shows(chrome, "The queue “pay” has no executor.", "Start an executor that serves it", "Executors alive\n1")
    wait_until(lambda: Executor.objects.filter(name="web2", alive=None).exists())
    shows(chrome, "The executor “web2”", "crashed")
    chrome.get(f"{site}{list_of('pausedqueue')}")
    shows(chrome, "The queue “pay” has no executor.", "Overview of delayed tasks")
    assert "no executor" in row_of(chrome, "pay").text
    assert "web1" in row_of(chrome, "default").text
    chrome.get(f"{site}{list_of('executor')}")
    shows(chrome, "web2", "crashed")


def read_a_chinese_page(chrome: Chrome, site: str) -> None:
    chrome.add_cookie({"name": "django_language", "value": "zh-hans"})
    chrome.get(f"{site}{list_of('overview')}")
    with translation.override("zh-hans"):
        ours, of_django = translation.gettext("What comes next"), translation.gettext("Home")
    assert of_django == "首页"
    assert ours != "What comes next"
    shows(chrome, ours, of_django)
    assert chrome.find_element(By.TAG_NAME, "html").get_attribute("lang") == "zh-hans"
    chrome.delete_cookie("django_language")


def visit_every_page(chrome: Chrome, site: str) -> None:
    """None has a serious problem of accessibility, in light or dark, nor is any wider than a screen or a phone.

    In Chinese it is the width alone that differs: the templates are the same, and no text is without a translation.
    """
    pages = every_page()
    found: dict[str, list[str]] = {}
    for language, schemes in (("en", ("light", "dark")), ("zh-hans", ())):
        chrome.add_cookie({"name": "django_language", "value": language})
        for page in pages:
            chrome.get(site + page)
            found[f"{page} {language}"] = problems_of_page(chrome, schemes)
        chrome.get(f"{site}{list_of('task')}")
        press(chrome, ".action-select")  # the box of all rows selects none until the page's script has begun
        ask_to_cancel(chrome)
        found[f"question {language}"] = problems_of_page(chrome, schemes)
    assert {page: problems for page, problems in found.items() if problems} == {}


def problems_of_page(chrome: Chrome, schemes: Sequence[str]) -> list[str]:
    wait(chrome, lambda page: page.execute_script(BANNER), "the banner does not come")
    found = problems_of(chrome, schemes)
    for width in (1920, 390, 1280):
        resize(chrome, width)
        if width == 390:
            found += [f"on a phone: {problem}" for problem in problems_of(chrome, schemes[:1])]
        wide, hidden = chrome.execute_script(WIDTHS)
        if wide > width + 1:
            found.append(f"{wide} wide at {width}")
        found += [f"{pixels} pixels of the list are out of sight at {width}" for pixels in hidden]
    return found + complaints_of(chrome)
