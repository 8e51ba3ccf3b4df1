"""A customer's browser: pages, forms, cookies, the CSRF token."""

import re
from datetime import datetime
from http.cookiejar import CookieJar
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

TIMEOUT = 30.0
INVALID = 422
REFUSED = 409


class Unexpected(Exception):
    """The shop answered with something that it should not have."""


class Answer(NamedTuple):
    status: int
    url: str
    text: str

    @property
    def accepted(self) -> bool:
        """Whether the shop did it; False when it refused; Unexpected when it answered anything else."""
        if self.status not in (200, REFUSED):
            errors = " ".join(re.findall(r'class="errorlist[^>]*>(.*?)</ul>', self.text, re.DOTALL))
            raise Unexpected(f"{self.url}: status {self.status} {errors}")
        return self.status == 200

    @property
    def number(self) -> int:
        """The number of what was made, from the address of its page."""
        match = re.search(r"/(\d+)/$", self.url)
        if not self.accepted or not match:
            raise Unexpected(f"{self.url}: status {self.status}, nothing was made")
        return int(match[1])


class ShopClient:
    """One visitor of the shop at ``address``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self.token = ""

    def get(self, path: str) -> Answer:
        return self.open(path, None)

    def post(self, path: str, **fields: object) -> Answer:
        """Sends a form and follows the redirection, as a browser does."""
        if not self.token:
            form = self.get("/admin/login/").text
            self.token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[0]
        data = urlencode({"csrfmiddlewaretoken": self.token, **fields}).encode()
        return self.open(path, data)

    def open(self, path: str, data: bytes | None) -> Answer:
        try:
            with self.opener.open(self.address + path, data, TIMEOUT) as response:
                return Answer(response.status, response.url, response.read().decode())
        except HTTPError as error:
            with error:
                return Answer(error.code, error.url, error.read().decode())

    def start_promotion(self, product: int, ends_at: datetime, percent: int = 20) -> int:
        path = f"/products/{product}/promotion/"
        return self.post(path, percent=percent, unit="minutes", ends_at=ends_at.isoformat()).number

    def start_promotion_for(self, product: int, seconds: int, percent: int = 20) -> int:
        path = f"/products/{product}/promotion/"
        return self.post(path, percent=percent, amount=seconds, unit="seconds").number

    def move_promotion(self, promotion: int, ends_at: datetime) -> bool:
        path = f"/promotions/{promotion}/move/"
        return self.post(path, unit="minutes", ends_at=ends_at.isoformat()).accepted

    def end_promotion(self, promotion: int) -> bool:
        return self.post(f"/promotions/{promotion}/end/").accepted

    def place_order(self, product: int, seconds: int, *options: str) -> int:
        customer = {"customer": "Ada", "email": "ada@example.org"}
        fields = {**customer, "quantity": 1, "amount": seconds, "unit": "seconds"}
        return self.post(f"/products/{product}/order/", **fields, **dict.fromkeys(options, "on")).number

    def pay(self, order: int) -> bool:
        return self.post(f"/orders/{order}/pay/").accepted

    def cancel(self, order: int) -> bool:
        return self.post(f"/orders/{order}/cancel/").accepted
