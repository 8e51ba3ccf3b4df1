"""What a person sees of a page."""

import re
from html import unescape
from typing import Any

from django.contrib.messages import get_messages
from django.test import Client

MAX_PAGES = 50


def rows_of(response: Any) -> list[dict[str, str]]:
    """The rows of a list, each with its columns' texts by the columns' names."""
    html = response.content.decode()
    body = re.search(r'<table id="result_list">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    return [cells_of(row) for row in re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)] if body else []


def cells_of(row: str) -> dict[str, str]:
    """The texts of one row's columns."""
    cells = re.findall(r'<t[dh] class="(?:[\w-]+ )?field-(\w+)[^"]*"[^>]*>(.*?)</t[dh]>', row, re.DOTALL)
    found = {}
    for name, html in cells:
        first, _, second = html.partition('<span class="ddt-second')
        found[name] = text_of(first)
        if second:
            found[f"{name}.second"] = text_of(f"<span{second}")
    return found


def text_of(html: str) -> str:
    """Without tags."""
    return unescape(re.sub(r"<[^>]+>", "", html)).strip()


def numbers_of(response: Any) -> list[str]:
    """The numbers of the tasks, or runs, in a list."""
    return [row["number"] for row in rows_of(response)]


def footer_of(response: Any) -> str:
    """Return what is below a list: the links to pages, and the number of rows."""
    found = re.search(r'<p class="paginator">(.*?)</p>', response.content.decode(), re.DOTALL)
    return " ".join(text_of(found[1]).split()) if found else ""


def inputs_of(response: Any) -> dict[str, str]:
    """The form of a page as a browser would send it: text inputs, hidden ones, text areas."""
    html = response.content.decode()
    form = re.search(r'<form[^>]*method="post"[^>]*id="task_form".*?</form>', html, re.DOTALL)
    assert form, "there is no form"
    found = {}
    for tag in re.findall(r"<input[^>]*>", form[0]):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if attributes.get("type") in ("text", "hidden", "number") and "name" in attributes:
            found[attributes["name"]] = unescape(attributes.get("value", ""))
    for name, text in re.findall(r'<textarea[^>]*name="(\w+)"[^>]*>(.*?)</textarea>', form[0], re.DOTALL):
        found[name] = unescape(text).strip()
    return found


def submit(client: Client, address: str, button: str = "_save", **changes: str) -> Any:
    """Load the page, change some of its inputs, press a button."""
    return client.post(address, {**inputs_of(client.get(address)), **changes, button: "1"})


def messages_of(response: Any) -> list[str]:
    """Return the messages that the next page will show."""
    return [str(message) for message in get_messages(response.wsgi_request)]


def hidden_of(response: Any) -> dict[str, list[str]]:
    """The hidden inputs of a page's form."""
    found: dict[str, list[str]] = {}
    form = response.content.decode().partition('<form method="post"')[2]
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form):
        found.setdefault(name, []).append(unescape(value))
    return found


def confirm(client: Client, address: str, response: Any, **query: str) -> Any:
    """Say yes to the question that a page asks, and follow the questions about the rest."""
    for _ in range(MAX_PAGES):
        if response.status_code != 200 or "confirmed" not in hidden_of(response):
            return response
        response = client.post(address, hidden_of(response), query_params=query)
    raise AssertionError(f"there is no end after {MAX_PAGES} pages")
