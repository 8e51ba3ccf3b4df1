"""A process that forks while it holds a mutex: ``python -m tests.leases.forker [waiting]``.

With ``waiting``, one of its threads stands in a line meanwhile, and asks the database again and again.

Its children use leases of their own and end in every way a child may.
"""

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import django

CHILDREN = 2
TTL = 6.0
"""Seconds: a third of it passes before each renewal, and on a busy machine a renewal takes seconds."""


def in_child(work: Callable[[], Any], ends_at_once: bool) -> int:
    """Fork; the exit code."""
    sys.stdout.flush()
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        work()
        if not ends_at_once:
            sys.exit(0)  # with all that Python does at its end
    except Exception as error:
        print(f"child: {error!r}", flush=True)
        os._exit(1)
    os._exit(0)


def use_leases() -> None:
    """Use leases in a child: what its parent holds is not its own; it may hold others, and loses no place in a line."""
    from django_delayed_tasks.leases import Pool, ResourceUnavailable, mutex

    try:
        with mutex("index", wait=0.1):
            raise AssertionError("the parent holds it")
    except ResourceUnavailable:
        pass
    with mutex("of the children", ttl=TTL, wait=60) as lease, Pool("proxies").lease(wait=60) as resource:
        await_renewal(lease)
        lease.check()
        resource.check()


def main(waits: bool) -> None:
    from django.db import connections

    from django_delayed_tasks.leases import Pool, mutex

    Pool("proxies").add("a")
    with mutex("index", ttl=TTL) as lease:
        waiter = threading.Thread(target=wait_for_turn)
        if waits:
            waiter.start()
        connections.close_all()  # a fork would copy this thread's
        codes = []
        for number in range(CHILDREN):
            await_renewal(lease)  # by now the renewer has a connection, and does not use it, as SQLite demands
            codes.append(in_child(use_leases, ends_at_once=bool(number % 2)))
        await_renewal(lease)
        lease.check()
        print("held", lease.is_held, codes, flush=True)
    if waits:
        waiter.join()


def await_renewal(lease: Any) -> None:
    """Wait until the lease was renewed."""
    before, deadline = lease._trusted_until, time.monotonic() + 60
    while lease._trusted_until == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_turn() -> None:
    from django.db import connections

    from django_delayed_tasks.leases import mutex

    with mutex("index", ttl=60, wait=None):
        print("its turn", flush=True)
    connections.close_all()


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what this is about
    django.setup()
    main("waiting" in sys.argv)
