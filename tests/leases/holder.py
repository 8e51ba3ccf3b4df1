"""A process that holds a mutex and does as it is told: ``python -m tests.leases.holder NAME TTL [HOURS]``.

With HOURS, its host's clock is so much ahead, or behind.
"""

import sys
from datetime import UTC, datetime, timedelta

import django


def main(name: str, ttl: float) -> None:
    from django_delayed_tasks.leases import LeaseLost, mutex

    with mutex(name, ttl=ttl, wait=60) as lease:
        lease.state = {"left by": lease.token}
        lease.save_state()
        print(f"held {lease.token}", flush=True)
        for line in sys.stdin:
            try:
                if line.strip() == "check":
                    lease.check()
                else:
                    lease.state = {"left by": "a former holder"}
                    lease.save_state()
                print(f"{line.strip()}: allowed", flush=True)
            except LeaseLost:
                print(f"{line.strip()}: refused, {lease.is_held}", flush=True)


def set_clock(hours: float) -> None:
    """Set the time of day that this process sees."""
    from django.utils import timezone

    from django_delayed_tasks import clock

    clock.host_now = timezone.now = lambda: datetime.now(UTC) + timedelta(hours=hours)


if __name__ == "__main__":
    django.setup()
    if len(sys.argv) > 3:
        set_clock(float(sys.argv[3]))
    main(sys.argv[1], float(sys.argv[2]))
