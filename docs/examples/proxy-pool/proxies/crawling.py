from django.db import connection
from django_delayed_tasks.leases import Pool

from proxies.network import Refused, get, ping

pool = Pool("proxies", quarantine=3600)


def answers(proxy):
    return ping(proxy.payload["address"])


def fetch(url):
    """Fetch a page through a proxy that no other crawler is using."""
    with pool.lease(ttl=10, wait=60, valid=answers) as proxy:
        while True:
            try:
                return get(url, proxy.payload["address"])
            except Refused:
                proxy.replace()


def crawl(urls):
    """Fetch pages, one after the other; return how many. Runs in a thread of its own."""
    try:
        return len([fetch(url) for url in urls])
    finally:
        connection.close()
