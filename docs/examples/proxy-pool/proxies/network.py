"""Forty proxies, in place of real ones. Each takes one connection at a time, and some are broken."""

import fcntl
import time

from django.conf import settings

ADDRESSES = [f"10.0.0.{number}:3128" for number in range(1, 41)]
DEAD = {ADDRESSES[6], ADDRESSES[20], ADDRESSES[32]}  # they do not answer at all
BANNED = {ADDRESSES[11]}  # it answers, but websites refuse it


class Refused(Exception):
    """The website does not accept this proxy."""


def ping(address):
    """Return whether the proxy answers."""
    return address not in DEAD


def get(url, address):
    """Fetch a page through a proxy. A second crawler that uses the proxy at the same time gets BlockingIOError."""
    if address in BANNED:
        raise Refused(address)
    settings.NETWORK.mkdir(exist_ok=True)
    with (settings.NETWORK / address).open("w") as connection:
        fcntl.flock(connection, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(settings.SECONDS_PER_PAGE)
        return f"The page at {url}"
