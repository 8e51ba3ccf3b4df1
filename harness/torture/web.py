"""A web process: it makes calls as views do, with the version of the package that is the first on its path."""

import json
import random
import signal
import sys
from threading import Event

import django

PATIENCE = 30.0
"""Seconds after which a call that the database refuses is refused for good: no server is restarted meanwhile."""


def main(number: int, rate: float, seed: str, longest: float, codes: tuple[str, ...]) -> None:
    """Make ``rate`` calls a second until SIGTERM; a call that is not answered then is waited for."""
    django.setup()
    import django_delayed_tasks
    from harness.torture.calls import Caller
    from harness.torture.load import RECENT, Load
    from harness.torture.models import Accepted

    class Views(Load):
        """Calls that come back to what any of the processes has added."""

        def recent(self) -> list[tuple[str, str]]:
            latest = Accepted.objects.filter(biz_code__in=self.codes).order_by("-id")
            return sorted(set(latest.values_list("biz_code", "biz_num")[:RECENT]))

    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    load = Views(
        Caller(process=number, patience=PATIENCE), stop, random.Random(f"{seed} {number}"), codes, f"w{number}-"
    )
    load.longest = longest
    print(f"Calling with {django_delayed_tasks.__path__[0]}", flush=True)
    load.run(sys.maxsize, rate)
    load.finish()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
