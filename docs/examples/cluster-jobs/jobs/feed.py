"""A daemon that runs on every host: one reads the feed, the others stand by."""

import time

from django_delayed_tasks.leases import mutex

from jobs.models import Entry


def say_who(host, pid, heartbeat):
    print("standing by", flush=True)


def read_feed(reader):
    """Read entry after entry, beginning where the last reader ended."""
    turn = mutex("feed-reader", ttl=5, wait=None, state={"read": 0}, on_standby=say_who)
    with turn as lease:
        print(f"reading from entry {lease.state['read'] + 1} on", flush=True)
        while lease.is_held:
            number = lease.state["read"] + 1
            Entry.objects.get_or_create(number=number, defaults={"reader": reader})
            lease.state["read"] = number
            lease.save_state()
            if number % 10 == 0:
                print(f"{number} entries are read", flush=True)
            time.sleep(0.02)
