"""What a test asks of a page in the browser of ``harness/browser.py``."""

import json
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import django
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 60  # seconds
OF_DJANGO = [] if django.VERSION >= (6, 0) else [["div.breadcrumbs"], [".datetime input"]]
"""What axe is not to look at: Django's own links without an underline, and inputs without a label, before 6.0."""
AXE = (
    files("axe_selenium_python") / "node_modules/axe-core/axe.min.js"
    if sys.version_info >= (3, 12)
    else files("axe_core_python") / "axe.min.js"  # an older axe, for Python 3.11
)
AT_ONCE = """
const sheet = new CSSStyleSheet();
sheet.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important }");
document.adoptedStyleSheets.push(sheet);
"""
"""Lets colors change at once when another scheme is preferred."""


def paint(chrome: Chrome, scheme: str) -> None:
    """Prefer "light" or "dark" pages."""
    chrome.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


def wait(chrome: Chrome, is_so: Callable[[Chrome], Any], what: str) -> Any:
    """Return what ``is_so`` returns once it is true."""
    try:
        return WebDriverWait(chrome, PATIENCE, poll_frequency=0.1).until(is_so, what)
    except Exception as error:
        text = chrome.find_element(By.TAG_NAME, "body").text
        raise AssertionError(f"{what}: {error}\n{chrome.current_url}\n{text}") from error


def text_of(chrome: Chrome) -> str:
    """Return the text that is seen, without empty lines."""
    return str(chrome.execute_script("return document.body.innerText.replace(/\\n+/g, '\\n')"))


def problems_of(chrome: Chrome, schemes: Sequence[str]) -> list[str]:
    """Return the serious problems of accessibility that axe finds on the page; other schemes change colors only.

    What the console has said until then is returned, too, and what it says of axe is dropped: axe copies style sheets
    that import others into the page, such as Django's before 6.1, and a strict policy refuses that.
    """
    found = complaints_of(chrome)
    if not chrome.execute_script("return 'axe' in window"):
        chrome.execute_script(AXE.read_text())
        chrome.execute_script(AT_ONCE)
    for scheme in schemes:
        paint(chrome, scheme)
        found += _violations(chrome, {} if scheme == schemes[0] else {"runOnly": ["color-contrast"]})
    paint(chrome, "light")
    complaints_of(chrome)
    return found


def _violations(chrome: Chrome, chosen: dict[str, Any]) -> list[str]:
    chrome.set_script_timeout(PATIENCE)
    context = json.dumps({"exclude": OF_DJANGO}) if OF_DJANGO else "document"
    options = json.dumps({"resultTypes": ["violations"], **chosen})
    found = chrome.execute_async_script(f"axe.run({context}, {options}).then(arguments[arguments.length - 1])")
    return [
        f"{rule['id']}: {node['html'][:150]} {node.get('failureSummary', '')[:300]}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def complaints_of(chrome: Chrome) -> list[str]:
    """Return what the console says since the last call, such as what the Content-Security-Policy refused."""
    log: list[dict[str, Any]] = chrome.get_log("browser")  # type: ignore[no-untyped-call]
    messages = [entry["message"] for entry in log if entry["level"] == "SEVERE"]
    return [message for message in messages if "favicon.ico" not in message]
