"""``python -m harness.torture.galera [--minutes M] [--seed N] [--json FILE] …``: everything about clusters.

Takes the options of ``python -m harness.torture``; what is left out is chosen for a run of about four minutes.
"""

import sys
from collections.abc import Sequence

from harness.torture.command import main as torture

SCENARIOS = ("galera", "galera-cut", "galera-conflicts")
MINUTES = 2.5
"""The minutes of load under faults; the other two scenarios, and the drain at the end, come on top."""


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m harness.torture`` with the defaults for a cluster."""
    given = {argument.partition("=")[0] for argument in arguments}
    defaults = ["--databases", "galera"]
    if "--minutes" not in given:
        defaults += ["--minutes", str(MINUTES)]
    if "--scenario" not in given:
        defaults += [word for name in SCENARIOS for word in ("--scenario", name)]
    return torture([*defaults, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
