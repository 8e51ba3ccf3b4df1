"""Debian's Chromium, driven by its driver; both are installed where root may."""

from collections.abc import Iterator
from contextlib import contextmanager

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from harness.servers.packages import find_program, install

PACKAGES = ("chromium", "chromium-driver", "fonts-noto-cjk")


def programs() -> tuple[str, str]:
    """Return the paths of the browser and of its driver. ServerError says what to install if that is not possible."""
    found = find_program(["chromium"]), find_program(["chromedriver"])
    if not all(found):
        install(PACKAGES, "the browser")
        found = find_program(["chromium"]), find_program(["chromedriver"])
    browser, driver = found
    assert browser, "apt-get install chromium"
    assert driver, "apt-get install chromium-driver"
    return browser, driver


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    """A headless browser with a window of this size."""
    browser, driver = programs()
    options = ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=ChromeService(driver))
    try:
        resize(chrome, width, height)
        yield chrome
    finally:
        chrome.quit()


def resize(chrome: Chrome, width: int, height: int = 900) -> None:
    """Set the size of the page that is seen, as a phone or a screen has it."""
    chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
